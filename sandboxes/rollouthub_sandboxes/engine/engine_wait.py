"""Waits for an engine that is stopped or restarting."""

import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

from rollouthub.errors import SandboxError
from rollouthub_sandboxes.engine.address import Address
from rollouthub_sandboxes.engine.engine import CONNECT_SECONDS, Engine, EngineAway, ping

AWAY_SECONDS = 60.0
"""Seconds that an engine may be away before waiting callers get the error."""
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 2.0

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Patience:
    """Lets all callers of an engine wait together while it is away, and repeat their attempt once it is back."""

    def __init__(
        self, engine: Engine, on_return: Callable[[], Awaitable[None]], *, seconds: float = AWAY_SECONDS
    ) -> None:
        """`on_return` is awaited once after each absence, before any attempt is repeated."""
        self._engine, self._on_return, self._seconds = engine, on_return, seconds
        self._is_away = self._is_told = False
        self._problem = ""
        self._turn = anyio.Lock()

    async def outlast(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """The result of `attempt`, which is repeated whenever the engine goes away; a failed attempt must leave nothing
        behind.

        It is not repeated once the whole call has taken longer than `seconds`.

        Raises:
            EngineAway: the engine did not come back in time.
            SandboxError: whatever the attempt raised while the engine was there.
        """
        end, pause = anyio.current_time() + self._seconds, _FIRST_PAUSE_SECONDS
        while True:
            try:
                return await attempt()
            except SandboxError as error:
                if not isinstance(error, EngineAway) and not await _is_gone(self._engine.address):
                    raise
                if anyio.current_time() + pause > end:
                    raise
            self._is_away = True
            # Also where it is back already: what breaks off each time is not to be tried without a rest.
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
            await self._wait(end)

    async def _wait(self, end: float) -> None:
        """Wait until the engine is back; one caller asks on behalf of all."""
        engine, pause = self._engine, _FIRST_PAUSE_SECONDS
        async with self._turn:
            while self._is_away:
                if anyio.current_time() > end and self._problem:  # another has just waited for as long
                    raise self._given_up()
                problem = await ping(engine.address)
                self._problem = problem or ""
                if problem is None:
                    self._is_away = False
                    await self._returned()
                    break
                if anyio.current_time() + pause > end:
                    raise self._given_up()
                if not self._is_told:
                    self._is_told = True
                    logger.warning("%s is away (%s); up to %g s are waited for it", engine.name, problem, self._seconds)
                await anyio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _given_up(self) -> EngineAway:
        engine = self._engine
        return EngineAway(
            f"{engine.name} at {engine.address.url} is away ({self._problem}), and was waited for "
            f"{self._seconds:g} s; start it again"
        )

    async def _returned(self) -> None:
        if self._is_told:
            self._is_told = False
            logger.warning("%s is back", self._engine.name)
        await self._on_return()


async def _is_gone(address: Address) -> bool:
    """Whether the engine no longer listens at its address; one that listens but does not answer is not gone."""
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            _, writer = await address.open()
    except TimeoutError:
        return False
    except OSError:
        return True
    writer.close()
    return False
