"""The agents that ship with the hub, a file or folder each.

Imports the core only; each is found by its entry point. Begin with `single_turn.py`, the shortest.
"""
