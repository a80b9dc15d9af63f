"""`hub score`: scores stored completions, and rescores runs."""
