"""The model API for agents outside: common provider APIs in front of the run's model; every call is recorded as a
turn.
"""
