"""Connects to a running Ray cluster, or starts one on this machine for as long as it is needed."""

import importlib.util
import logging
import os
import threading
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from pydantic import JsonValue

from rollouthub.cluster.cluster_head import ask_head
from rollouthub.engine.pool_options import RayOptions
from rollouthub.errors import ConfigError, UsageError
from rollouthub.event_loop import background_tasks
from rollouthub.plugins.extras import pip_install

LEAVE_SECONDS = 15.0
"""Seconds to disconnect from a cluster, or to stop one."""
_START_ONE = "start one (`ray start --head`), or leave the address out"

# Ray reads these when it is imported or started; what the user has set stands.
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # Ray prints these to stdout, amid what the hub prints there; the run's log says them in its own words.
    "RAY_DEDUP_LOGS_SKIP_REGEX": "A worker died or was killed|killed due to memory pressure|has been marked dead|"
    "cannot be scheduled right now|infeasible resource requests",
}


@asynccontextmanager
async def open_cluster(options: RayOptions, *, cpus: int | None = None) -> AsyncGenerator[Any]:
    """Connect to the cluster that the options name, or start one here; disconnect or stop it at the end of the block.

    Yields the module `ray`, connected. `cpus`: CPUs of a cluster started here; None for all of the machine.

    Raises:
        ConfigError: Ray is not installed.
        UsageError: no cluster answers at the address.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield ray
        return
    session = _Session(ray, options, cpus)
    async with background_tasks() as threads:
        threads.start_soon(session.hold)
        try:
            await session.opened()
            yield ray
        finally:
            await session.end()


class _Session:
    """A connection to a cluster, held by a thread that lives as long as the connection.

    Connecting blocks for seconds, and the kernel ends processes that Ray starts when the thread that started them ends.
    """

    def __init__(self, ray: Any, options: RayOptions, cpus: int | None) -> None:
        self._ray, self._options, self._cpus = ray, options, cpus
        self._over = threading.Event()
        self._changed, self._ended = anyio.Event(), anyio.Event()
        self._problem: Exception | None = None

    async def hold(self) -> None:
        """Open the connection in a thread, and close it after `end`; if cancelled, the thread closes it alone."""
        try:
            await anyio.to_thread.run_sync(self._hold, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        except UsageError as error:
            self._problem = error
        finally:
            self._changed.set()
            self._ended.set()

    def _hold(self) -> None:
        connect(self._ray, self._options, self._cpus)
        try:
            anyio.from_thread.run_sync(self._changed.set)
            self._over.wait()
        finally:
            self._ray.shutdown()

    async def opened(self) -> None:
        """Wait until connected.

        Raises:
            UsageError: the connection failed.
        """
        await self._changed.wait()
        if self._problem is not None:
            raise self._problem

    async def end(self) -> None:
        """Close the connection; does not wait for one that is still being opened."""
        self._over.set()
        if self._changed.is_set():
            with anyio.move_on_after(LEAVE_SECONDS, shield=True):
                await self._ended.wait()


async def check_cluster(options: RayOptions) -> None:
    """Check that a Ray head answers at the options' address; without this check Ray would wait for minutes.

    Raises:
        ConfigError: Ray is not installed.
        UsageError: nothing answers at the address, or not a Ray cluster.
    """
    if importlib.util.find_spec("ray") is None:
        raise _no_ray()
    place = (options.address or "").removeprefix("ray://")
    _, colon, port = place.rpartition(":")
    if colon and port.isdecimal() and (wrong := await ask_head(place)) is not None:
        raise UsageError(f"no Ray cluster answers at {options.address}: {wrong}; {_START_ONE}")


def _no_ray() -> ConfigError:
    return ConfigError(f"the Ray pool needs Ray: {pip_install('ray')}")


def _import_ray() -> Any:
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray
    except ImportError:
        raise _no_ray() from None
    return ray


class _NoFolders(list[str]):
    """An import path that stays empty: Ray would put the driver's working folder first on its workers' import path."""

    def extend(self, _: Iterable[str]) -> None:
        """Ignore the folders that Ray adds."""


def _job_config() -> Any:
    from ray.job_config import JobConfig

    config = JobConfig()
    # Ray knows no other way; a runtime environment's `working_dir` would move the workers to another folder.
    assert hasattr(config, "_py_driver_sys_path")
    config._py_driver_sys_path = _NoFolders()  # pyright: ignore[reportPrivateUsage]
    return config


def connect(ray: Any, options: RayOptions, cpus: int | None) -> None:
    """Connect to the cluster that the options name, or start one; blocks for seconds.

    Raises:
        UsageError: the cluster cannot be used.
    """
    runtime: dict[str, JsonValue] | None = dict(options.runtime_env) or None
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "runtime_env": runtime}
    given["job_config"] = _job_config()
    # Outside the main thread Ray cannot take SIGTERM for itself, and warns of it; whoever runs a hub has plans for it.
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        if options.address is None:
            # A cluster of this process alone needs no tokens, and other clusters on this machine are not joined.
            os.environ.setdefault("RAY_AUTH_MODE", "disabled")
            ray.init(address="local", num_cpus=cpus, include_dashboard=False, **given)
        else:
            ray.init(address=options.address, **given)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "on this machine" if options.address is None else f"at {options.address}"
        said = str(error).strip().partition("\n")[0]
        raise UsageError(
            f"no Ray cluster could be used {where}: {said}" + ("" if options.address is None else f"; {_START_ONE}")
        ) from error
