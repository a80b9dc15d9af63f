"""Plays environments of the library verifiers, in a process of their own; each session is forked from it.

The environment is loaded once, and the library's own loop plays it: where that asks a model, the hub is asked instead.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import importlib
import os
import traceback
from typing import Any

from rollouthub_servers.foreign.code_failures import failures_returned
from rollouthub_servers.foreign.forked_serving import seed_all, serve_forked, stand_in
from rollouthub_servers.foreign.local_datasets import reason_of, use_local
from rollouthub_servers.foreign.serving import Session, arguments

_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PRIME_API_KEY")
"""What stands there without a judge, so that clients can be made that are never asked."""


def open_session(world: Any) -> Session:
    """A session's functions: those of the world, and of the one rollout that is played in it."""
    rollout = world.rollout()

    def begin(row: Any, seed: int) -> Any:
        seed_all(seed)
        return rollout.begin(row)

    def describe() -> Any:
        try:
            return world.describe()
        except Exception as error:
            return {"refused": reason_of(error)}

    replay = failures_returned(rollout.replay)

    def score(said: Any, row: Any = None) -> Any:
        failed = None if row is None else replay(row=row, said=said)
        return failed or rollout.score(said)

    return {
        "ready": lambda: None,
        "describe": describe,
        "rows": world.rows,
        "begin": begin,
        "call": failures_returned(rollout.call),
        "answer": failures_returned(rollout.answer),
        "score": score,
        "score_group": world.score_group,
    }


def main() -> None:
    """Load the environment, and answer for ever."""
    given = arguments()
    stand_in(given["absent"])
    seed_all(0)
    if given["judge"] == "none":
        os.environ.update(dict.fromkeys(_KEYS, "none"))
    try:
        importlib.import_module("verifiers")
        use_local(given["datasets"], "verifiers")
        own = importlib.import_module(f"rollouthub_servers.verifiers.{given['kind']}_world")
        world = own.open_world(given)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        refused = reason_of(error)
        serve_forked(lambda: {"ready": lambda: refused, "describe": lambda: {"refused": refused}})
    serve_forked(lambda: open_session(world))


if __name__ == "__main__":
    main()
