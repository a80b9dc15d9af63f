"""Shared by the drivers of all step APIs: the protocol of a world, and the form of its observations."""

import importlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rollouthub_servers.foreign.forked_serving import said

MOST_SHOWN = 200_000
"""Maximum number of characters of one observation."""

Shown = list[dict[str, str]]
"""The parts of a seat's observation, in order: `{"text": …}` or `{"png": BASE64}`."""


class World(Protocol):
    """Protocol of one library and one game of it."""

    def ids(self) -> Sequence[str]:
        """All ids in the library's registry."""
        ...

    def entries(self, ids: Sequence[str]) -> Sequence[Any]:
        """What makes the games of these ids, such as `package.module:Class`; all ids where none are given."""
        ...

    def describe(self, id: str, players: int | None) -> dict[str, Any]:
        """`players`, `prompt`, `opening`, and `arguments` or `actions` of one id; a game of it is begun with seed 0."""
        ...

    def reset(self, id: str, seed: int, players: int) -> dict[str, Any]:
        """Reset the game; return its first turn."""
        ...

    def step(self, action: Any) -> dict[str, Any]:
        """Act for the seat whose turn it is; return the next turn."""
        ...


class Unplayable(Exception):
    """An id cannot be played; the message says why."""


def load(entries: Iterable[Any]) -> None:
    """Import the modules of entry points; one that fails will say so when it is played."""
    for module in {str(entry).partition(":")[0] for entry in entries if isinstance(entry, str)}:
        try:
            importlib.import_module(module)
        except Exception as error:
            sys.stderr.write(f"{module}: {said(error)}\n")


def text(words: str) -> Shown:
    """An observation of one text part."""
    cut = f"{words[:MOST_SHOWN]}\n(cut at {MOST_SHOWN:,} characters)" if len(words) > MOST_SHOWN else words
    return [{"text": cut}]
