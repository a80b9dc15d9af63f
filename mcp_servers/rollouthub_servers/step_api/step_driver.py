"""Plays one game of a step API in each session. Runs in the library's own environment, a process for each session.

`describe` says what an id is, `reset` begins it, `step` goes on. What a turn answers: who is to act, what that seat is
shown, whether all is over, and what every seat has earned so far, which stays with the hub.
"""

import importlib
import traceback
from collections.abc import Mapping
from typing import Any

from rollouthub_servers.foreign.forked_serving import said, seed_all, serve_forked, stand_in
from rollouthub_servers.foreign.serving import Refused, Session, arguments
from rollouthub_servers.step_api.world import Unplayable, World, load


def open_world(name: str, settings: Mapping[str, Any]) -> World:
    """The world of a library: `textarena`, `gymnasium` or `gem`; modules that register ids are imported."""
    stand_in(settings["absent"])
    for module in settings["modules"]:
        importlib.import_module(module)
    own = importlib.import_module(f"rollouthub_servers.step_api.{name}_world")
    return own.open_world(settings)


def sessions(world: World) -> Session:
    """What the hub may ask of one session."""
    state = {"has_begun": False}

    def ids() -> list[str]:
        return list(world.ids())

    def describe(id: str, players: int | None) -> dict[str, Any]:
        seed_all(0)
        try:
            return world.describe(id, players)
        except Exception as error:
            return {"refused": str(error) if isinstance(error, Unplayable) else said(error)}

    def reset(id: str, seed: int, players: int) -> dict[str, Any]:
        seed_all(seed)
        state["has_begun"] = True
        return world.reset(id, seed, players)

    def step(action: Any) -> dict[str, Any]:
        assert state["has_begun"], "a game begins with reset"
        try:
            return world.step(action)
        except Refused:
            raise
        except Exception as error:
            traceback.print_exc()
            return {"broke": said(error)}

    return {"ids": ids, "describe": describe, "reset": reset, "step": step}


if __name__ == "__main__":
    given = arguments()
    WORLD = open_world(given["library"], given)
    load(WORLD.entries(given["ids"]))
    serve_forked(lambda: sessions(WORLD))
