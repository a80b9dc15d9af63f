"""Two rollouts compared line by line."""
