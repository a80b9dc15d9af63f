"""The client of registries: addresses, tokens, offers, downloads and search.

Imports `bundle`, `trust` and `server` (for folders). Begin with `source.py`, the protocol of a registry.
"""
