"""A line of the list of runs: what it says, and where that comes from."""
