"""Delivers keys typed ahead to the widget they were meant for."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator
from typing import Protocol, runtime_checkable

from textual.app import App
from textual.events import Key, Paste
from textual.message_pump import MessagePump

_LOOK_SECONDS = 0.02
"""Between looks whether what keys wait for was read."""
PATIENCE_SECONDS = 1.0
"""How long keys wait for what is being read once a key that waits for nothing was typed after them."""
_FEWEST_WALKS, _MOST_WALKS = 2, 20

Typed = Key | Paste


@runtime_checkable
class Preparing(Protocol):
    """A screen that reads first what its keys are meant for."""

    def is_early(self, key: str) -> bool:
        """Whether a key is meant for what is still being read."""
        ...


class TypeAhead:
    """Gives an app what is typed, each key only when the one before it has done all it does.

    Textual gives each key at once to what is focused then, while the one before is still on its way up from widget to
    widget, or what it does is: another pane, a screen, a line to type in. So a word is sent after each key, along the
    same way and to where messages about it go. When the word is back and nothing else is on that way, the next key
    follows. Keys that are meant for what a screen still reads wait for that, too; for a second at most where one of
    `urgent` comes after them.
    """

    def __init__(self, app: App[None], give: Callable[[Typed], Awaitable[None]], urgent: Container[str]) -> None:
        """`give` hands a key to Textual; `urgent` are keys that wait for nothing that is read."""
        self._app, self._hand_over, self._urgent = app, give, urgent
        self._held = deque[Typed]()
        self._is_busy = False
        self._early_since: float | None = None

    @property
    def is_idle(self) -> bool:
        """Whether all that was typed has done what it does."""
        return not self._is_busy

    async def take(self, typed: Typed) -> None:
        """Give it, now or after what came before it."""
        self._held.append(typed)
        if not self._is_busy:
            self._is_busy = True
            await self._go_on()

    async def _go_on(self) -> None:
        if not self._held:
            self._is_busy = False
        elif self._is_early():
            self._app.set_timer(_LOOK_SECONDS, self._go_on)
        else:
            self._early_since = None
            await self._hand_over(self._held.popleft())
            self._walk(1)

    def _is_early(self) -> bool:
        """Whether the next one is to wait for what its screen reads."""
        screen = self._app.screen
        if not screen.is_mounted:
            return True
        next_one = self._held[0]
        if not isinstance(screen, Preparing) or not screen.is_early(_name(next_one)) or _name(next_one) in self._urgent:
            return False
        self._early_since = self._early_since or time.monotonic()
        is_patient = time.monotonic() - self._early_since < PATIENCE_SECONDS
        return is_patient or not any(_name(typed) in self._urgent for typed in self._held)

    def _walk(self, number: int) -> None:
        """Send a word along the way of keys: each widget passes it on after all that came to it before."""
        way = self._way()
        self._pass_on(iter(way), way, number)

    def _way(self) -> list[MessagePump]:
        return [node for node in (self._app.focused or self._app.screen).ancestors_with_self if node is not self._app]

    def _pass_on(self, rest: Iterator[MessagePump], way: list[MessagePump], number: int) -> None:
        for pump in rest:
            if pump.call_later(self._pass_on, rest, way, number):
                return
        self._app.call_later(self._come_back, way, number)

    async def _come_back(self, way: list[MessagePump], number: int) -> None:
        is_quiet = way == self._way() and not any(pump.message_queue_size for pump in way)
        if (is_quiet and number >= _FEWEST_WALKS) or number >= _MOST_WALKS:
            await self._go_on()
        else:
            self._walk(number + 1)


def _name(typed: Typed) -> str:
    return typed.key if isinstance(typed, Key) else ""
