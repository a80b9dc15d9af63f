"""ORS: servers of the Open Reward Standard, played as they are (`hub import ors`).

`importer` starts a server to see what it offers, `ors_record` is what it writes, `ors_environment` plays it.
`ors_driver` runs in the server's own Python.
"""

from rollouthub_servers.ors.ors_environment import Ors, OrsConfig, OrsGroups

__all__ = ["Ors", "OrsConfig", "OrsGroups"]
