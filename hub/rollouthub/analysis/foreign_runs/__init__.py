"""Runs of other tools, read into runs of the hub: one reader a format, a cache, and the reading itself.

`run_format.py` has the protocol, `open_foreign.py` what a RUN argument that is somebody else's file leads to.
"""
