"""A registry: a directory of published environments, and the HTTP server over it.

Begin with `registry.py` (publish, yank, find), then `http_server.py`.
"""
