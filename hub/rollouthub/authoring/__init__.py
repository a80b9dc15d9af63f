"""What authors of environments import: rewards, judges, simulated users, rows of data sets.

Imports the flat modules alone. Begin with `rewards/`.
"""
