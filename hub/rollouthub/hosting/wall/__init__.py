"""The wall around the server of an environment that somebody else wrote: what it sees, and what it may reach.

Begin with `wall.py`. The walls themselves, a container's and bubblewrap's, are of the component `environment_wall`.
"""
