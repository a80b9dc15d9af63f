"""Requests to the worker processes that load the library; started on demand, and shared by all episodes."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

from rollouthub.errors import ConfigError, TaskError
from rollouthub.plugins.extras import pip_install
from rollouthub_servers.workers import WorkerDied, Workers

WALL_SECONDS = 120.0
"""Wall seconds without a reply after which a worker is killed."""

_workers = Workers(
    "rollouthub_servers.reasoning_gym.worker",
    flags=("-W", "ignore"),
    # Hashes are fixed: some generators follow the order of a set.
    variables={"PATH": os.defpath, "PYTHONHASHSEED": "0", "LANG": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1"},
)


def ask(what: dict[str, Any]) -> dict[str, Any]:
    """Send a request to an idle or new worker, and wait for the reply; blocks.

    Raises:
        ConfigError: the library is not installed, or refuses the request.
        TaskError: the worker died or did not reply in time.
    """
    with _failures():
        return _granted(_workers.ask(what, WALL_SECONDS))


async def ask_in_thread(what: dict[str, Any]) -> dict[str, Any]:
    """As `ask`, without blocking the event loop; on cancellation the worker is killed."""
    with _failures():
        return _granted(await _workers.ask_in_thread(what, WALL_SECONDS))


def close_workers() -> None:
    """End all workers, in tests. The next request starts new ones."""
    _workers.close()


@contextmanager
def _failures() -> Generator[None]:
    """Raise a worker's failures as the hub's errors."""
    if find_spec("reasoning_gym") is None:
        cure = f"{pip_install('reasoning-gym')}; it is compiled, on Debian with gcc and python3-dev"
        raise ConfigError(f"reasoning_gym needs an extra: {cure}")
    try:
        yield
    except TimeoutError:
        raise TaskError(f"reasoning_gym's worker gave no answer within {WALL_SECONDS:g} s") from None
    except WorkerDied as end:
        raise TaskError(f"reasoning_gym's worker ended with {end}") from end


def _granted(reply: dict[str, Any]) -> dict[str, Any]:
    if "refused" in reply:
        raise ConfigError(reply["refused"])
    return reply
