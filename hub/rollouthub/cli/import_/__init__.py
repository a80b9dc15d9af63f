"""`hub import`: makes environments from foreign formats."""
