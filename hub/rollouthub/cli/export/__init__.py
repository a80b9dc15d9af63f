"""`hub export`: writes rollouts for other programs, and data sets for trainers."""
