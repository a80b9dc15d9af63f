"""Comparisons of runs on the same tasks: which model is better, by how much, and what the full set of tasks would
cost.
"""
