"""The agents that ship with the hub, a file or folder each.

This package imports only the core; entry points register the agents. Begin with `single_turn.py`, the shortest.
"""
