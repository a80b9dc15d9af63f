"""Delivers keys typed ahead to the widget they were meant for."""

import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Iterator
from typing import Protocol, runtime_checkable

from textual.app import App
from textual.events import Key, Paste
from textual.message_pump import MessagePump

_LOOK_SECONDS = 0.02
"""Seconds between checks whether the screen has read what held keys wait for."""
PATIENCE_SECONDS = 1.0
"""Most seconds that keys wait for a screen's reading, once an urgent key was typed after them."""
_FEWEST_WALKS, _MOST_WALKS = 2, 20

Typed = Key | Paste


@runtime_checkable
class Preparing(Protocol):
    """A screen that must read data before it can handle some keys."""

    def is_early(self, key: str) -> bool:
        """Whether a key needs data that is still being read."""
        ...


class TypeAhead:
    """Passes typed keys to an app, each only when the effects of the key before it are complete.

    Textual sends each key to the widget focused at that moment, even if an earlier key is still bubbling up or is about
    to change the focus, the pane or the screen. So after each key a marker message follows it through the same widgets.
    When the marker is back and their queues are empty, the next key is passed on. Keys that need data which a screen is
    still reading wait for it; for one second at most if a key in `urgent` is typed after them.
    """

    def __init__(self, app: App[None], give: Callable[[Typed], Awaitable[None]], urgent: Container[str]) -> None:
        """`give` passes a key to Textual; `urgent` are keys that need no data of the screen."""
        self._app, self._hand_over, self._urgent = app, give, urgent
        self._held = deque[Typed]()
        self._is_busy = False
        self._early_since: float | None = None

    @property
    def is_idle(self) -> bool:
        """Whether the effects of all typed keys are complete."""
        return not self._is_busy

    async def take(self, typed: Typed) -> None:
        """Pass a key or paste on, at once or after those before it."""
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
        """Whether the next key must wait for data that its screen reads."""
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
        """Send a marker through the widgets that handle keys: each passes it on after the messages it had before."""
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
