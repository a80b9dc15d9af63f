"""BFCL v4: function calling in one or many turns, with BFCL's simulated APIs and its own checkers.

`bfcl_import` lists rows and writes packages. `preparation` and `reference_calls` run at import time, and `driver` in
every episode that needs BFCL's code; these three run in a separate process with BFCL's own dependencies.
`environment` is the environment that agents play.
"""

from rollouthub_servers.bfcl.environment import Bfcl, BfclConfig

__all__ = ["Bfcl", "BfclConfig"]
