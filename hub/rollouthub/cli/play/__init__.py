"""`hub play`: a person plays an episode."""
