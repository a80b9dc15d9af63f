"""CPU seconds of a quiet machine: what was measured, set against work of a known length done right after.

A neighbour on the same core stretches CPU seconds to twice their length, of the yardstick as of what is measured. So a
bound stays what it is where nothing else runs.
"""

import json
from collections.abc import Callable
from time import thread_time

QUIET_SECONDS = 0.0024
"""The yardstick's on a quiet machine: the least of thousands of times that the bounds were set beside."""
TRIES = 3
_TEXT = json.dumps([{"role": "user", "content": "a line\n" * 9, "at": place} for place in range(400)])


def quiet_seconds(took: float) -> float:
    """What took so many CPU seconds of this thread just now, in those of a quiet machine; never more than it took."""
    return took * min(1.0, QUIET_SECONDS / min(_timed(_work) for _ in range(TRIES)))


def least_seconds(work: Callable[[], object], enough: float) -> float:
    """The CPU seconds that work takes on a quiet machine: of the first try below `enough`, or else the best."""
    tries: list[float] = []
    while len(tries) < TRIES and min(tries, default=enough) >= enough:
        took = _timed(work)
        tries.append(took if took < enough else quiet_seconds(took))
    return min(tries)


def _timed(work: Callable[[], object]) -> float:
    began = thread_time()
    work()
    return thread_time() - began


def _work() -> None:
    total = 0
    for number in range(40_000):
        total += number % 7
    json.dumps(json.loads(_TEXT))
