"""Plays HUD's environments, in a process of their own; each session is forked from it."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import importlib
import os
import traceback
from typing import Any

from rollouthub_servers.foreign.code_failures import failures_returned
from rollouthub_servers.foreign.forked_serving import seed_all, serve_forked, stand_in
from rollouthub_servers.foreign.local_datasets import reason_of
from rollouthub_servers.foreign.serving import Session, arguments


def open_session(loaded: Any, folder: str) -> Session:
    """A session's functions: those of the environment, and of the one rollout that is played in it."""
    os.chdir(folder)
    rollout = loaded.rollout()

    def begin(row: Any, seed: int) -> Any:
        seed_all(seed)
        return rollout.begin(row)

    replay, scored = failures_returned(rollout.replay), failures_returned(rollout.score)

    def score(said: Any, row: Any = None) -> Any:
        failed = None if row is None else replay(row=row, said=said)
        return failed or scored(said=said)

    return {
        "ready": lambda: None,
        "rows": loaded.rows,
        "begin": begin,
        "call": failures_returned(rollout.call),
        "answer": failures_returned(rollout.answer),
        "score": score,
    }


def main() -> None:
    """Load the source, and answer for ever: for its one environment, or of which there are."""
    given = arguments()
    stand_in(given["absent"])
    seed_all(0)
    try:
        os.chdir(given["code"])
        world: Any = importlib.import_module("rollouthub_servers.hud.hud_world")
        found = world.load_all(given)
        if given["name"] and given["name"] not in found:
            raise LookupError(f"there is no environment {given['name']!r}")
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        refused = reason_of(error)
        serve_forked(lambda: {"ready": lambda: refused, "names": lambda: {"refused": refused}})
    if given["name"]:
        serve_forked(lambda: open_session(found[given["name"]], given["code"]))
    serve_forked(lambda: {"names": lambda: sorted(found), "describe": lambda name: found[name].describe()})


if __name__ == "__main__":
    main()
