"""Models: names, credentials, the direct, litellm and tokens lanes, the router, and mock models.

Imports `http`, `plugins` and below. Begin with `resolve.py`.
"""
