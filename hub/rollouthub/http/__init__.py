"""HTTP for all servers of the hub: listeners with their limits and guards; and a small client.

Imports the flat modules. Begin with `listener.py`, or with `exchange.py` for the client.
"""
