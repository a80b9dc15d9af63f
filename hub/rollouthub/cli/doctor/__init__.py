"""`hub doctor`: diagnoses a machine, a model, an environment or a run."""
