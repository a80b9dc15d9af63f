"""Analyses of finished runs and of machines: comparisons, new scores, diagnoses and estimates.

Imports `live.follow`, the engine and below. Begin with `compare/comparison.py`.
"""
