"""`hub score`: scores for completions that exist, and new scores for runs."""
