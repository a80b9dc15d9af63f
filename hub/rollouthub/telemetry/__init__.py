"""Metrics, traces and trackers of a run.

Imports the engine and below. Begin with `metrics/run_monitor.py`.
"""
