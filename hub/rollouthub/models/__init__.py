"""Who generates: names, credentials, the direct and the litellm lane, the router, mock models.

Imports `http`, `plugins` and below. Begin with `resolve.py`.
"""
