"""Starting the event loop: asyncio through anyio, on uvloop where it is installed, garbage collected seldom."""

import gc
import importlib.util
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple

import anyio

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")

_COLLECT_AFTER = (10_000, 10, 50)
"""Larger first steps are cheaper over all, and stand in the way of everyone else for longer: 50 ms and more."""


def run_async(function: Callable[[*Arguments], Awaitable[Result]], *arguments: *Arguments) -> Result:
    """Run an async function to its end."""
    fast = importlib.util.find_spec("uvloop") is not None
    with quiet_collector():
        return anyio.run(function, *arguments, backend="asyncio", backend_options={"use_uvloop": fast})


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
