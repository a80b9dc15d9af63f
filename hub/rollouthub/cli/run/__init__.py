"""`hub run`: its options, the run itself, its progress and its final tables."""
