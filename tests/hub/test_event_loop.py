"""The loop collects garbage as it goes, and leaves the process as it found it."""

import gc
import weakref

import anyio

from rollouthub.event_loop import run_async


class Circle:
    """Holds itself."""

    def __init__(self) -> None:
        self.itself = self


def test_circles_are_freed_while_the_loop_runs() -> None:
    freed: list[bool] = []

    async def run() -> None:
        gone = anyio.Event()
        weakref.finalize(Circle(), gone.set)
        with anyio.fail_after(5):
            await gone.wait()
        freed.append(True)

    before = gc.get_threshold()
    run_async(run)
    assert freed == [True]
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
