"""Starting the event loop: asyncio through anyio, on uvloop where it is installed."""

import importlib.util
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

import anyio

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


def run_async(function: Callable[[*Arguments], Awaitable[Result]], *arguments: *Arguments) -> Result:
    """Run an async function to its end."""
    fast = importlib.util.find_spec("uvloop") is not None
    return anyio.run(function, *arguments, backend="asyncio", backend_options={"use_uvloop": fast})
