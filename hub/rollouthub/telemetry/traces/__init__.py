"""Traces by OpenTelemetry: the spans of attempts and calls, and their delivery."""
