"""A queue of waiting tasks: first come, first served, without polling."""

import math
from collections import OrderedDict
from collections.abc import Callable

import anyio


class _WaitingTask:
    """One waiting task; its event is renewed before each wait."""

    __slots__ = ("event",)

    def __init__(self) -> None:
        self.event = anyio.Event()


class WaitingLine:
    """Tasks in order of arrival; only the first checks whether it may continue."""

    __slots__ = ("_places",)

    def __init__(self) -> None:
        # Ordered, so that a cancelled waiter leaves from the middle, and the first is found, in constant time.
        self._places: OrderedDict[_WaitingTask, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    async def wait(self, seconds_left: Callable[[], float]) -> None:
        """Return once first in line and `seconds_left()` is 0.

        `seconds_left` is called again after the seconds it returns, and whenever `changed` is called; an exception from
        it ends the wait. The caller must take what it waited for before it awaits anything else.
        """
        place = _WaitingTask()
        self._places[place] = None
        try:
            while True:
                seconds = seconds_left() if next(iter(self._places)) is place else math.inf
                if seconds <= 0:
                    return
                place.event = anyio.Event()
                if seconds == math.inf:
                    await place.event.wait()
                else:
                    with anyio.move_on_after(seconds):
                        await place.event.wait()
        finally:
            del self._places[place]
            self.changed()

    def changed(self) -> None:
        """Let the first in line check again."""
        if self._places:
            next(iter(self._places)).event.set()
