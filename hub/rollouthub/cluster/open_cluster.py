"""Connects to a running Ray cluster, or starts one on this machine for as long as it is needed."""

import importlib.util
import os
import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from rollouthub.cluster.cluster_head import ask_head
from rollouthub.cluster.connection import START_ONE, connect, import_ray, no_ray
from rollouthub.cluster.local_cluster import local_cluster, rays_environment, require_token
from rollouthub.engine.pool_options import RayOptions
from rollouthub.errors import UsageError
from rollouthub.event_loop import background_tasks

LEAVE_SECONDS = 15.0
"""Seconds to disconnect from a cluster, or to stop one."""


@dataclass(frozen=True)
class Cluster:
    """A cluster that this process is connected to."""

    ray: Any
    """The module `ray`, connected."""
    withheld: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """This process's variables that a cluster started by it was not started with, for its workers alone."""


@asynccontextmanager
async def open_cluster(options: RayOptions, *, cpus: int | None = None) -> AsyncGenerator[Cluster]:
    """Connect to the cluster that the options name, or start one here; disconnect or stop it at the end of the block.

    `cpus`: CPUs of a cluster started here; None for all of the machine.

    Raises:
        ConfigError: Ray is not installed.
        UsageError: no cluster answers at the address.
    """
    if options.address is None:
        require_token()  # Ray reads how it is to connect when it is imported
    ray = import_ray()
    if ray.is_initialized():
        yield Cluster(ray)
        return
    own = rays_environment(os.environ)
    withheld = {name: value for name, value in os.environ.items() if options.address is None and name not in own}
    session = _RayConnection(ray, options, cpus)
    async with background_tasks() as threads:
        threads.start_soon(session.hold)
        try:
            await session.opened()
            yield Cluster(ray, withheld)
        finally:
            await session.end()


class _RayConnection:
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
        with ExitStack() as stack:
            options = self._options
            if options.address is None:
                options = options.model_copy(update={"address": stack.enter_context(local_cluster(self._cpus))})
            connect(self._ray, options)
            stack.callback(self._ray.shutdown)
            anyio.from_thread.run_sync(self._changed.set)
            self._over.wait()

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
        raise no_ray()
    place = (options.address or "").removeprefix("ray://")
    _, colon, port = place.rpartition(":")
    if colon and port.isdecimal() and (wrong := await ask_head(place)) is not None:
        raise UsageError(f"no Ray cluster answers at {options.address}: {wrong}; {START_ONE}")
