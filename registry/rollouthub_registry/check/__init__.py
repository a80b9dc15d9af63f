"""`hub check`: whether an environment may be published.

`checks/` holds quick checks, `thorough/` attacks on a served environment. Begin with `check_run.py`.
"""
