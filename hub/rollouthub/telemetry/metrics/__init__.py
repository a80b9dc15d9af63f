"""Watching a run from outside: Prometheus metrics, and OpenTelemetry traces."""
