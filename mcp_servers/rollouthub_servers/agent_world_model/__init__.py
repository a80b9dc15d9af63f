"""AgentWorldModel-1K: generated web applications over SQLite, their endpoints as tools, scored by generated verifiers.

`importer` lists scenarios and writes packages; `awm_driver` and `openapi_tools` run in the foreign process, one per
scenario; `awm_environment` is what agents meet.
"""

from rollouthub_servers.agent_world_model.awm_environment import AgentWorldModel, AgentWorldModelConfig

__all__ = ["AgentWorldModel", "AgentWorldModelConfig"]
