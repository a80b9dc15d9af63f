"""Reports of runs: what made the numbers, and the numbers, gathered once and written in several formats."""
