"""`hub model`: lists and stops model servers."""
