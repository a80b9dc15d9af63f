"""A run that plays: steering it through a socket, and following it read-only.

Imports telemetry, the engine and below. Begin with `control/live_server.py` and `follow/run_feed.py`.
"""
