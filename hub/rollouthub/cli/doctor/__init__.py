"""`hub doctor`: what a machine, a model, an environment or a run lacks."""
