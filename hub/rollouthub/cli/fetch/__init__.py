"""`hub fetch`: brings the data of named benchmarks."""
