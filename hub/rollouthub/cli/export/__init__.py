"""`hub export`: rollouts for other programs, and data sets for trainers."""
