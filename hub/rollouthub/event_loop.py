"""Starting the event loop: asyncio through anyio, on uvloop where it is installed, garbage collected seldom."""

import asyncio
import gc
import importlib.util
import resource
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from typing import TypeVar, TypeVarTuple

import anyio

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_MOST_OPEN_FILES = (2**20, 10_240)
"""More nobody needs, and some programs go through as many numbers as they may have files. The second is macOS's."""
_COLLECT_AFTER = (50_000, 10, 10)
"""For stretches in which the loop does not come round."""
_YOUNG_SECONDS = 0.2
"""How often what is new is looked through. Python counts what is made less what is freed: thousands of episodes that
come and go leave the count where it is, until there is half a million of objects to walk at once."""
_ALL_AFTER = 300
"""Every so many times, everything is."""


def run_async(function: Callable[[*Arguments], Awaitable[Result]], *arguments: *Arguments) -> Result:
    """Run an async function to its end."""
    fast = importlib.util.find_spec("uvloop") is not None

    async def run() -> Result:
        with steady_collector():
            return await function(*arguments)

    allow_open_files()
    with quiet_collector():
        return anyio.run(run, backend="asyncio", backend_options={"use_uvloop": fast})


def allow_open_files() -> None:
    """Let this process, and what it starts, have as many files open as it may allow itself.

    Systems begin with 1024, for programs that a larger number would break; connections of agents soon are more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for most in _MOST_OPEN_FILES:
        wanted = most if hard < 0 else min(hard, most)
        if 0 <= soft < wanted:
            with suppress(ValueError, OSError):  # macOS has a bound below the hard limit
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
                return


@contextmanager
def steady_collector() -> Generator[None]:
    """Collect garbage from the running loop, a little at a time, so that it is never late by much."""
    loop, times = asyncio.get_running_loop(), 0

    def collect() -> None:
        nonlocal next_time, times
        times += 1
        gc.collect(0 if times % _ALL_AFTER else 2)
        next_time = loop.call_later(_YOUNG_SECONDS, collect)

    next_time = loop.call_later(_YOUNG_SECONDS, collect)
    try:
        yield
    finally:
        next_time.cancel()


@contextmanager
def quiet_collector() -> Generator[None]:
    """Collect garbage seldom, and leave what is loaded by now out of it.

    A run makes thousands of short-lived objects at a time and few cycles; with thousands of episodes in flight Python's
    default thresholds spend a third of the CPU on walking live ones.
    """
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
