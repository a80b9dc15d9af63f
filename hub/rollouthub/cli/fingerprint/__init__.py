"""`hub fingerprint`: says what an environment has, what its episodes cost, and what a run shows of its tasks."""
