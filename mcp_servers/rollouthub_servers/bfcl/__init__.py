"""BFCL v4: function calling in one or many turns, with BFCL's simulated APIs and its own checkers.

`preparation` and `reference_calls` run at import time, and `driver` in every episode that needs BFCL's code, all three
in a process with BFCL's own dependencies. Begin with `environment`, which agents play.
"""

from rollouthub_servers.bfcl.environment import Bfcl, BfclConfig

__all__ = ["Bfcl", "BfclConfig"]
