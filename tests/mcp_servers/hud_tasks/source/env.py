"""Environments of every kind, by name; for tests."""

# pyright: basic, reportMissingImports=false

import os
import signal
import time
from types import SimpleNamespace
from typing import Any

from garbling import garble
from hud.environment.env import Environment

CANARY = "canary-41fd"
NOTED: "list[int]" = []
"""State of the module's own, which environments often have."""


def note(x: int = 0) -> str:
    """Count, unless it is too much."""
    if x == 66:
        raise SystemExit
    if x > 9:
        raise ValueError("that is too much")
    NOTED.append(x)
    return f"noted {len(NOTED)}"


words = Environment("words")
tools = Environment(
    "tools",
    capabilities=[SimpleNamespace(name="notes", protocol="mcp/2025-11-25", url={"note": note, "grade": lambda: "no"})],
)
shell = Environment("shell", capabilities=[SimpleNamespace(name="shell", protocol="ssh/2", url="ssh://here")])
never = Environment("never")
empty = Environment("empty")


@words.template()
async def spell(word: str = "berry") -> Any:
    """Ask for the letters of a word; misbehave as told."""
    said = yield [{"role": "user", "content": f"How many letters has {word}?"}]
    if said == "garble":
        garble()
    if said == "hang":
        time.sleep(600)  # noqa: ASYNC251  # as a loop without end does
    if said == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if said == "fail":
        raise KeyError("something")
    if said == "error":
        yield {"score": 1.0, "isError": True, "content": "the judge was not there"}
    if said == "odd":
        yield {"score": "much"}
    parts = [{"name": "right", "weight": 1.0, "value": float(said == str(len(word)))}]
    yield {"score": float(said == str(len(word))), "subscores": parts, "content": f"{CANARY} {word}"}


@tools.template()
async def count(secret: str = CANARY) -> Any:
    """Ask for two notes."""
    yield "Note twice."
    yield float(len(NOTED) == 2)


@shell.template()
async def work() -> Any:
    """Want a shell."""
    yield "Work."
    yield 1.0


@never.template()
async def broken() -> Any:
    """Fail at every answer."""
    yield "Say something."
    raise OSError("always")


@empty.template()
async def wanting(word: str) -> Any:
    """Want an argument."""
    yield word
    yield 1.0
