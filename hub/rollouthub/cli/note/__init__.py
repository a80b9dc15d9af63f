"""`hub note`: tags, stars, comments and reviews of rollouts and turns, kept beside the run."""
