"""Plays Inspect's tasks, in a process of their own; each session is forked from it.

The task is loaded once, and Inspect's own evaluation plays it: where that asks the model, the hub is asked instead.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import functools
import importlib
import importlib.metadata
import time
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from rollouthub_servers.foreign.code_failures import failures_returned
from rollouthub_servers.foreign.forked_serving import seed_all, serve_forked, stand_in
from rollouthub_servers.foreign.local_datasets import reason_of, use_local
from rollouthub_servers.foreign.serving import Session, arguments

_WORLD = "rollouthub_servers.inspect.task_world"
_MOST_WAIT = 0.01


def open_session(loaded: Any) -> Session:
    """A session's functions: those of the task, and of the one rollout that is played in it."""
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


@contextmanager
def no_waiting() -> "Generator[None]":
    """Have code that waits before it tries again not wait: there is no network that could come back."""
    own = time.sleep
    time.sleep = lambda seconds, /: own(min(float(seconds), _MOST_WAIT))
    try:
        yield
    finally:
        time.sleep = own


def describe(place: "dict[str, Any]") -> Any:
    """Load a task in this session alone, and say what it is."""
    seed_all(0)
    try:
        with no_waiting():
            loaded = importlib.import_module(_WORLD).load_task(place)
        return loaded.describe()
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        return {"refused": reason_of(error)}


def main() -> None:
    """Load the task, where one is named, and answer for ever."""
    given = arguments()
    stand_in(given["absent"])
    seed_all(0)
    # The library asks at each evaluation which distributions there are, which costs more than the rest of it.
    importlib.metadata.packages_distributions = functools.cache(importlib.metadata.packages_distributions)
    try:
        world: Any = importlib.import_module(_WORLD)
        use_local(given["datasets"])
        with no_waiting():
            loaded = None if given["place"] is None else world.load_task(given["place"])
        world.warm_up()
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        refused = reason_of(error)
        serve_forked(lambda: {"ready": lambda: refused, "describe": lambda **_: {"refused": refused}})
    serve_forked(lambda: {"describe": describe} if loaded is None else open_session(loaded))


if __name__ == "__main__":
    main()
