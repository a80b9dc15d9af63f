"""Bundles: an environment as one reproducible archive, built and validated.

Begin with `bundle.py`.
"""
