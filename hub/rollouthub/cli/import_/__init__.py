"""`hub import`: environments from foreign formats."""
