"""`hub check --thorough`: attacks on a served environment over HTTP, as agents could make them.

`attacks/` has one file for each kind of attack. Begin with `thorough_check.py`, then `attack_context.py`.
"""
