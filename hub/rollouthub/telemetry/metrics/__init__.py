"""Monitoring of a run from outside: Prometheus metrics."""
