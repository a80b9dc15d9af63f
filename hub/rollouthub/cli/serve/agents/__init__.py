"""`hub serve agents`: environments and a model for agents outside."""
