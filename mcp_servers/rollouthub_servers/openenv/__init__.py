"""OpenEnv: environments over one WebSocket an episode, played as they are (`hub import openenv`).

`importer` finds them and sees how they are played, `openenv_record` is what it writes, `openenv_environment`
plays it: `shown_fields` says what an agent may see. `openenv_driver` runs in the environment's own Python.
"""

from rollouthub_servers.openenv.openenv_environment import OpenEnv, OpenEnvConfig

__all__ = ["OpenEnv", "OpenEnvConfig"]
