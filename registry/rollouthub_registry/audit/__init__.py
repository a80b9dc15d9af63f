"""`hub audit`: examines every task of an environment without a model, and says which scores can be trusted.

`probes/` holds what is tried on a task, `cheats/` ways to be paid without the work, one small file each. Begin with
`audit_run.py`.
"""
