"""Two rollouts, line by line."""
