"""`TurnKeeper`: the order of seats that act one after the other through tools, whose calls wait for the next turn."""

from collections.abc import Sequence

import anyio


class TurnKeeper:
    """Knows which seat's turn it is, and lets others wait.

    @tool
    async def move(self, square: str) -> str:
        seat = self.calling_seat
        if self.turns.current != seat:
            raise ToolError("It is not your turn.")
        ...
        self.turns.pass_on()
        return self.news() if await self.turns.wait(seat) else "The game is over."
    """

    def __init__(self, seats: Sequence[str]) -> None:
        self._seats = tuple(seats)
        self.current = self._seats[0]
        """The seat that may act."""
        self.is_over = False
        self._changed = anyio.Event()

    def other(self, seat: str) -> str:
        """The seat that acts after this one."""
        return self._seats[(self._seats.index(seat) + 1) % len(self._seats)]

    def pass_on(self) -> None:
        """Give the turn to the next seat."""
        self.current = self.other(self.current)
        self._wake()

    def end(self) -> None:
        """End all turns: waiting calls return False."""
        self.is_over = True
        self._wake()

    def put(self, current: str, *, is_over: bool) -> None:
        """Set the turn, as when a snapshot is restored.

        Raises:
            ValueError: there is no such seat.
        """
        if current not in self._seats:
            raise ValueError(f"there is no seat {current!r}; there are {', '.join(self._seats)}")
        self.current, self.is_over = current, is_over
        self._wake()

    async def wait(self, seat: str) -> bool:
        """Wait for a seat's turn; False when the turns have ended."""
        while not self.is_over and self.current != seat:
            await self._changed.wait()
        return not self.is_over

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
