"""What authors of environments import: rewards, judges, simulated users, rows of data sets.

Imports `plugins` and the flat modules. Begin with `rewards/composite.py`.
"""
