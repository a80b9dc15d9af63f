"""Installing bundles: a virtual environment for each version, created completely or not at all.

Imports `bundle` and `trust`, but no registry client. Begin with `installation.py`.
"""
