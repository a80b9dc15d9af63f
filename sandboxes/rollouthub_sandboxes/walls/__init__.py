"""Walls around servers of installed environments: a container's, or bubblewrap's.

The hub finds them by the component `environment_wall`. Begin with `choice.py`.
"""
