"""`hub serve`: environments and a model for agents outside."""
