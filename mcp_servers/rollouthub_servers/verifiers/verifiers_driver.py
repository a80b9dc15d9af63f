"""Plays environments of the library verifiers, in a process of their own; each session is forked from it.

The environment is loaded once, and the library's own loop plays it: where that asks a model, the hub is asked instead.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import importlib
import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Any

from rollouthub_servers.foreign.forked_serving import seed_all, serve_forked, stand_in
from rollouthub_servers.foreign.serving import Refused, Session, arguments
from rollouthub_servers.verifiers.score_watch import is_outside

_KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "PRIME_API_KEY")
"""What stands there without a judge, so that clients can be made that are never asked."""
_UNREACHED = re.compile(r"Couldn't reach '([^']{1,100})'")
_SHOWN = 300


def use_local(folders: "dict[str, str]") -> None:
    """Have `load_dataset` read the folders that were given in place of the names."""
    if not folders:
        return
    import datasets

    own: Callable[..., Any] = datasets.load_dataset

    def load_dataset(path: str, *args: Any, **named: Any) -> Any:
        return own(folders.get(path, path), *args, **named)

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("datasets", "verifiers") and getattr(module, "load_dataset", None) is own:
            module.load_dataset = load_dataset  # type: ignore[attr-defined]


def reason_of(error: BaseException) -> str:
    """Why an environment does not load, in a line: what was raised first of all that led there."""
    while (below := error.__cause__ or error.__context__) is not None:
        if "Couldn't reach" in str(error):
            break
        error = below
    said = f"{type(error).__name__}: {error}"[:_SHOWN]
    name = _UNREACHED.search(said)
    if name is not None:
        setting = f'--set \'datasets={{"{name[1]}": "FOLDER"}}\''
        return f"it reads the data set {name[1]!r}, which is not here; give a copy: {setting}"
    if "api_key" in said or "_API_KEY" in said:
        return f"it asks a model itself, such as a judge, and none is given to it here ({said})"
    return said


def _failures_returned(act: "Callable[..., Any]") -> "Callable[..., Any]":
    """The function, changed to return what the environment's code raises; a missing service is still raised."""

    def answer(**given: Any) -> Any:
        try:
            return act(**given)
        except Refused:
            raise
        except Exception as error:
            if is_outside(error):
                raise
            traceback.print_exc()
            return {"broke": f"{type(error).__name__}: {error}"[:_SHOWN]}

    return answer


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

    replay = _failures_returned(rollout.replay)

    def score(said: Any, row: Any = None) -> Any:
        failed = None if row is None else replay(row=row, said=said)
        return failed or rollout.score(said)

    return {
        "ready": lambda: None,
        "describe": describe,
        "rows": world.rows,
        "begin": begin,
        "call": _failures_returned(rollout.call),
        "answer": _failures_returned(rollout.answer),
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
        use_local(given["datasets"])
        own = importlib.import_module(f"rollouthub_servers.verifiers.{given['kind']}_world")
        world = own.open_world(given)
    except (Exception, SystemExit) as error:
        traceback.print_exc()
        refused = reason_of(error)
        serve_forked(lambda: {"ready": lambda: refused, "describe": lambda: {"refused": refused}})
    serve_forked(lambda: open_session(world))


if __name__ == "__main__":
    main()
