"""`hub estimate`: what a run will use."""
