"""Questions about finished runs and about machines: comparisons, new scores, symptoms, estimates.

Imports `live.follow`, the engine and below. Begin with `compare/comparison.py`.
"""
