"""HUD v6: environments with templates and MCP tools, started and graded as their protocol does (`hub import hud`).

`importer` finds them and writes packages. `hud_driver` and `hud_world` run in the foreign process; `hud_env` is what
agents meet.
"""

from rollouthub_servers.hud.hud_env import Hud, HudConfig

__all__ = ["Hud", "HudConfig"]
