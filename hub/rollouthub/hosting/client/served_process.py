"""Runs an environment server in a process of its own, and restarts it when it dies."""

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import anyio
from anyio.abc import TaskStatus
from pydantic import JsonValue

from rollouthub.errors import (
    ConfigError,
    EpisodeError,
    HubError,
    ServerGone,
    raise_first_error,
)
from rollouthub.hosting.client.remote_host import RemoteHost
from rollouthub.hosting.client.server_connection import ServerConnection, connect
from rollouthub.hosting.client.server_process import ServerProcess, start
from rollouthub.hosting.launch import RoleEndpoint, ServeOrder
from rollouthub.hosting.server_program import OURS, ServerProgram
from rollouthub.hosting.wall.walled_start import ServerStart, server_start
from rollouthub.protocols import EnvironmentHost, EnvironmentInfo

logger = logging.getLogger(__name__)

LAST_HEALTH_SECONDS = 2.0
"""Seconds in which a server must answer when it is to be stopped; otherwise it is killed at once."""
MOST_FAILED_STARTS = 3
"""Failed starts in a row after which the server is given up."""
MOST_SHORT_LIVES = 6
"""Servers in a row that die within `SETTLED_SECONDS` before the environment is given up; one bad task may kill
several.
"""
SETTLED_SECONDS = 10.0
"""Seconds after which a server's death no longer counts as early."""
LONGEST_PAUSE_SECONDS = 2.0
LONGEST_EPISODE_SECONDS = 30 * 86400.0
"""Time to live of the server's episodes in seconds; the hub sets a shorter one for each episode."""


@dataclass(frozen=True)
class Probing:
    """How often a server is checked, and when it counts as late or frozen."""

    every_seconds: float = 5.0
    answer_seconds: float = 5.0
    """Seconds that an answer may take; a later server is used only if no other is up."""
    silent_seconds: float = 60.0
    """Seconds without an answer and without CPU use after which a server counts as frozen and is killed. A busy server
    is bounded by its calls' own deadlines: it may be reading its tasks.
    """


class _Flag:
    """An event that can be cleared."""

    def __init__(self) -> None:
        self._event = anyio.Event()

    @property
    def is_raised(self) -> bool:
        return self._event.is_set()

    def raise_(self) -> None:
        self._event.set()

    def lower(self) -> None:
        self._event = anyio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class ServedProcess:
    """Keeps one environment server running: its `run`, in a task of its owner, starts and restarts the process."""

    def __init__(
        self,
        order: ServeOrder,
        probing: Probing = Probing(),  # it is frozen
        program: ServerProgram = OURS,
    ) -> None:
        self._order, self._probing, self._program = order, probing, program
        self._name = program.name or order.environment
        self._info: EnvironmentInfo | None = None
        self._connection: ServerConnection | None = None
        self._changed = anyio.Event()
        self._suspicion = _Flag()
        self._is_late = False
        self._gone: ServerGone | None = None
        self._scope = anyio.CancelScope()

    async def run(self, *, task_status: TaskStatus[EnvironmentInfo]) -> None:
        """Serve until stopped. Errors of the first start are raised; later ones lead to a restart.

        Raises:
            HubError: the first start failed.
        """
        with self._scope:
            failed = short = 0
            while True:
                try:
                    seconds, why = await self._live(task_status)
                except EpisodeError as error:
                    if self._info is None:
                        raise
                    failed, why = failed + 1, str(error)
                    if not error.retryable or failed == MOST_FAILED_STARTS:
                        break
                except HubError as error:
                    if self._info is None:
                        raise
                    why = str(error)
                    break
                else:
                    failed, short = 0, short + 1 if seconds < SETTLED_SECONDS else 0
                    if short == MOST_SHORT_LIVES:
                        break
                logger.warning("the server of %r is gone (%s); starting another", self._name, why)
                await anyio.sleep(min(LONGEST_PAUSE_SECONDS, 0.1 * 2 ** (failed + short)))
            self._gone = ServerGone(f"the server of {self._name!r} is gone for good: {why}")
            logger.error("%s", self._gone)
            self._announce(None)

    async def _live(self, first: TaskStatus[EnvironmentInfo]) -> tuple[float, str]:
        """Run one server process from start to end; returns how many seconds it was up, and what ended it."""
        async with server_start(self._program, self._order) as prepared:
            return await self._live_as(prepared, first)

    async def _live_as(self, prepared: ServerStart, first: TaskStatus[EnvironmentInfo]) -> tuple[float, str]:
        process = await start(self._name, self._program, prepared)
        began, why, is_frozen = time.monotonic(), "", False
        try:
            async with raise_first_error(), AsyncExitStack() as stack, anyio.create_task_group() as tasks:
                tasks.start_soon(process.hear)
                ready = await process.greet(prepared.order)
                tasks.start_soon(process.drain)
                suspicion = _Flag()
                connection = await stack.enter_async_context(
                    connect(
                        prepared.control_url(ready),
                        self._order.control_token,
                        on_fault=suspicion.raise_,
                        agent_url=None if prepared.control_host is None else prepared.order.agent_url,
                    )
                )
                await self._introduce(connection, first)
                tasks.start_soon(_raise_at_end, suspicion, process)
                began = time.monotonic()
                try:
                    await self._watch(process, connection, suspicion)
                except anyio.get_cancelled_exc_class():
                    with anyio.CancelScope(shield=True):
                        is_frozen = not await connection.is_healthy(LAST_HEALTH_SECONDS)
                    raise
                why = await process.last_words()
                tasks.cancel_scope.cancel()
        finally:
            await process.end(at_once=is_frozen)
            await process.finish()
        return time.monotonic() - began, why

    async def _introduce(self, connection: ServerConnection, first: TaskStatus[EnvironmentInfo]) -> None:
        """Read the server's description; after a restart it must be the same.

        Raises:
            ConfigError: the environment has changed, or is served under another contract.
        """
        info = await connection.info()
        if self._info is None:
            self._info = info
            self._scope.shield = True  # from here on whoever plays goes first, and `stop` ends it
            first.started(info)
        elif (info.digest, info.tools_digest) != (self._info.digest, self._info.tools_digest):
            raise ConfigError(
                f"it was changed while it ran ({self._info.digest}, {self._info.tools_digest} → "
                f"{info.digest}, {info.tools_digest}); start a new run"
            )

    async def _watch(self, process: ServerProcess, connection: ServerConnection, suspicion: _Flag) -> None:
        """Offer the server's connection until its process ends; kill the process if it is suspected and does not
        answer, or frozen.
        """
        self._suspicion = suspicion
        quiet = _Silence(process)
        try:
            while process.is_alive:
                self._announce(connection)
                with anyio.move_on_after(self._probing.every_seconds):
                    await suspicion.wait()
                is_suspect = suspicion.is_raised
                if not process.is_alive:
                    break
                if await connection.is_healthy(self._probing.answer_seconds):
                    self._is_late = False
                    quiet.end()
                    suspicion.lower()
                elif is_suspect or quiet.seconds() >= self._probing.silent_seconds:
                    logger.warning("the server of %r does not answer; ending it", self._name)
                    await process.end(at_once=True)
                else:
                    self._is_late = True
        finally:
            self._is_late = False
            self._announce(None)

    def _announce(self, connection: ServerConnection | None) -> None:
        self._connection = connection
        self._changed.set()
        self._changed = anyio.Event()

    @property
    def is_up(self) -> bool:
        """Whether the server can be used now, as far as is known."""
        return self._connection is not None and not self._suspicion.is_raised and not self._is_late

    async def connection(self) -> ServerConnection:
        """The connection to the server, after a restart if it was gone.

        Raises:
            ServerGone: the server was given up.
        """
        while self._connection is None or self._suspicion.is_raised:
            if self._gone is not None:
                raise ServerGone(str(self._gone))
            await self._changed.wait()
        return self._connection

    def stop(self) -> None:
        """Let the server exit, and do not restart it."""
        self._scope.cancel()


class _Silence:
    """Measures for how long a process has neither answered nor used CPU."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self.end()

    def end(self) -> None:
        """Note an answer: the measurement starts anew."""
        self._since, self._cpu_seconds = time.monotonic(), self._process.cpu_seconds()

    def seconds(self) -> float:
        """Seconds since the process last answered or used CPU."""
        used = self._process.cpu_seconds()
        if used is None or used != self._cpu_seconds:
            self._since, self._cpu_seconds = time.monotonic(), used
        return time.monotonic() - self._since


async def _raise_at_end(suspicion: _Flag, process: ServerProcess) -> None:
    await process.wait()
    suspicion.raise_()


def new_order(
    target: str,
    settings: Mapping[str, JsonValue],
    roles: Mapping[str, RoleEndpoint],
    traces: str | None = None,
    program: ServerProgram = OURS,
) -> ServeOrder:
    """An order for one server, with a control token of its own."""
    return ServeOrder(
        environment=target,
        python=program.python,
        is_strangers=program.is_strangers,
        config=dict(settings),
        roles=dict(roles),
        control_token=secrets.token_urlsafe(32),
        ttl_seconds=LONGEST_EPISODE_SECONDS,
        traces=traces,
    )


@asynccontextmanager
async def serve(
    target: str,
    settings: Mapping[str, JsonValue],
    roles: Mapping[str, RoleEndpoint],
    *,
    traces: str | None = None,
    program: ServerProgram = OURS,
) -> AsyncGenerator[EnvironmentHost]:
    """Start an environment's server and yield its host; the server is stopped after the context.

    Raises:
        UsageError: the environment or its configuration is refused.
        TaskError: the server does not start.
    """
    supervisor = ServedProcess(new_order(target, settings, roles, traces, program), program=program)
    async with raise_first_error(), anyio.create_task_group() as tasks:
        info = await tasks.start(supervisor.run)
        try:
            yield RemoteHost(program.informed(info), supervisor)
        finally:
            supervisor.stop()
