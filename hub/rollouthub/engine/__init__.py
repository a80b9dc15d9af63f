"""A run from its request to committed rollouts: plan, session, schedule, attempt, seat.

Imports `hosting`, `models`, `store` and below. Begin with `session.py` and `attempt.py`.
"""
