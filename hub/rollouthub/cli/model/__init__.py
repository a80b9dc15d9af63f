"""`hub model`: model servers on a Ray cluster."""
