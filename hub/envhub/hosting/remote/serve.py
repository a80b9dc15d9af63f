"""Serving an environment in a process of its own for as long as a run needs it."""

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
from anyio.abc import TaskStatus
from pydantic import JsonValue

from envhub.errors import HubError, TaskError, first_error
from envhub.hosting.launch import RoleEndpoint, ServeOrder
from envhub.hosting.remote.connection import Connection, ServerFault, connect
from envhub.hosting.remote.host import RemoteHost
from envhub.hosting.remote.process import ServerProcess, start
from envhub.protocols import EnvironmentHost, EnvironmentInfo

logger = logging.getLogger(__name__)

HEALTH_SECONDS = 5.0
INFO_SECONDS = 30.0
MOST_FAILED_STARTS = 3
"""Starts in a row that fail before the server is given up."""
SETTLED_SECONDS = 10.0
"""A server that lived this long did start."""


class Supervisor:
    """Keeps one environment server up: a task of its owner's starts it, and again when it is gone."""

    def __init__(self, order: ServeOrder) -> None:
        self._order = order
        self._connection: Connection | None = None
        self._changed = anyio.Event()
        self._suspicion = anyio.Event()
        self._given_up: HubError | None = None

    async def run(self, *, task_status: TaskStatus[EnvironmentInfo]) -> None:
        """Serve until cancelled; the first start's errors are the caller's.

        Raises:
            HubError: the server did not come up the first time.
        """
        failures, is_first = 0, True
        while failures < MOST_FAILED_STARTS:
            started = time.monotonic()
            try:
                await self._live(task_status if is_first else None)
            except HubError as error:
                if is_first:
                    raise
                logger.warning("the server of %r did not come up again: %s", self._order.environment, error)
                self._given_up = error
            is_first = False
            failures = failures + 1 if time.monotonic() - started < SETTLED_SECONDS else 0
            await anyio.sleep(min(2.0, 0.1 * 2**failures) if failures else 0)
        self._given_up = self._given_up or TaskError(
            f"the server of {self._order.environment!r} failed {failures} times in a row", retryable=False
        )
        self._announce(None)

    async def _live(self, first: TaskStatus[EnvironmentInfo] | None) -> None:
        """One process from start to end."""
        name = self._order.environment
        process = await start(name)
        try:
            async with AsyncExitStack() as stack, anyio.create_task_group() as tasks:
                tasks.start_soon(process.hear)
                ready = await process.greet(self._order)
                self._suspicion = anyio.Event()
                tasks.start_soon(process.drain)
                tasks.start_soon(self._await_end, process)
                connection = await stack.enter_async_context(connect(ready.control_url, self._order.control_token))
                if first is not None:
                    info = await connection.call("GET", "/v1/environment", EnvironmentInfo, seconds=INFO_SECONDS)
                    first.started(info)
                self._announce(connection)
                while process.is_alive:
                    await self._suspicion.wait()
                    if process.is_alive and not await _is_healthy(connection):
                        logger.warning("the server of %r does not answer; ending it", name)
                        await process.end(at_once=True)
                    if process.is_alive:
                        self._suspicion = anyio.Event()
                        self._announce(connection)
                logger.warning("the server of %r is gone (%s); starting another", name, process.why_gone())
                self._announce(None)
                tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_error(group) from None
        finally:
            await process.end(at_once=not process.is_alive)

    async def _await_end(self, process: ServerProcess) -> None:
        await process.wait()
        self._suspicion.set()

    def _announce(self, connection: Connection | None) -> None:
        self._connection = connection
        self._changed.set()
        self._changed = anyio.Event()

    async def connection(self) -> Connection:
        """The server as it is now, started again if it was gone.

        Raises:
            TaskError: it does not come up.
        """
        while self._connection is None or self._suspicion.is_set():
            if self._given_up is not None and not isinstance(self._given_up, ServerFault):
                raise TaskError(f"the environment server is gone for good: {self._given_up}", retryable=False)
            await self._changed.wait()
        return self._connection

    def suspect(self, connection: Connection) -> None:
        """Somebody met this server gone or silent: have it looked at."""
        if connection is self._connection:
            self._suspicion.set()


async def _is_healthy(connection: Connection) -> bool:
    try:
        return await connection.is_healthy(HEALTH_SECONDS)
    except HubError:
        return False


@asynccontextmanager
async def serve(
    name: str, settings: Mapping[str, JsonValue], roles: Mapping[str, RoleEndpoint]
) -> AsyncGenerator[EnvironmentHost]:
    """Start an environment's server and be its client; it ends with the context.

    Raises:
        UsageError: the environment or its configuration is refused.
        TaskError: the server does not come up.
    """
    order = ServeOrder(
        environment=name, config=dict(settings), roles=dict(roles), control_token=secrets.token_urlsafe(32)
    )
    supervisor = Supervisor(order)
    try:
        async with anyio.create_task_group() as tasks:
            info = await tasks.start(supervisor.run)
            yield RemoteHost(info, supervisor)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise first_error(group) from None
