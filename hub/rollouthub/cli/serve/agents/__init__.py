"""`hub serve agents`: serves environments and a model to external agents."""
