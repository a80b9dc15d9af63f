"""How long the event loop is held: each of its callbacks timed, in CPU of its thread, so a busy machine holds none.

The bound is the one that holds for the hub on a quiet machine: what goes over it is set against the yardstick.
Collected as seldom as in a run, the garbage of a test process is no callback's; the best of three tries counts.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from time import thread_time

from rollouthub.event_loop import quiet_collector
from tests.yardstick import TRIES, quiet_seconds

SIZE = 4 * 2**20 - 4096
"""Characters of what may be handed in, less what stands around them."""
SECONDS = 0.05


@contextmanager
def watched_callbacks() -> Generator[list[float]]:
    """The longest callback of the loop meanwhile, in a list that may be set back to 0."""
    longest, run = [0.0], asyncio.Handle._run  # pyright: ignore[reportPrivateUsage, reportUnknownMemberType, reportAttributeAccessIssue, reportUnknownVariableType]

    def timed(handle: asyncio.Handle) -> None:
        began = thread_time()
        run(handle)
        took = thread_time() - began
        longest[0] = max(longest[0], took if took < SECONDS else quiet_seconds(took))

    asyncio.Handle._run = timed  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    try:
        with quiet_collector():
            yield longest
    finally:
        asyncio.Handle._run = run  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]


async def shortest_hold(play: Callable[[list[float]], Awaitable[object]]) -> float:
    """The longest callback of the best try; `play` may set back what has been seen so far."""
    held: list[float] = []
    for _ in range(TRIES):
        with watched_callbacks() as longest:
            # A task of its own, as in a run.
            await asyncio.ensure_future(play(longest))
        held.append(longest[0])
        if held[-1] < SECONDS:
            break
    return min(held)
