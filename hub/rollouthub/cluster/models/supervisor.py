"""`ModelServerSupervisor`: keeps one model server running and reports its state. Does not depend on Ray."""

import logging
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import anyio

from rollouthub.cluster.models.kept_server import KeptServer, open_server
from rollouthub.cluster.models.model_spec import ModelSpec, Secrets, log_path
from rollouthub.cluster.models.server_command import build_command
from rollouthub.cluster.models.server_counters import Rate, ServerCounts
from rollouthub.errors import HubError, said
from rollouthub.models.registered import ServerRow, ServerState

logger = logging.getLogger(__name__)

_START_CHECK_SECONDS = 0.25
_LONGEST_PAUSE_SECONDS = 60.0
_BLIPS = 3
"""Failed health checks in a row after which a server is unhealthy."""
_PORT_TRIES = 3
"""Attempts with a free port, in case another process takes it before the server does."""
_DRAIN_CHECK_SECONDS = 0.25
_TAKEN = ("address already in use", "errno 98")


class ModelServerSupervisor:
    """Starts a server, checks its health, and restarts it a limited number of times if it dies or does not answer."""

    def __init__(
        self, spec: ModelSpec, number: int, secrets: Secrets, address: str, on_change: Callable[[], None]
    ) -> None:
        """`address`: this node's address, for other nodes; `on_change` is called at every change of state."""
        self._spec, self._number, self._secrets = spec, number, secrets
        self._address, self._on_change = address, on_change
        self._patience = spec.patience
        self._state: ServerState = "starting"
        self._since = time.time()
        self._base_url: str | None = None
        self._port: int | None = None
        self._restarts = self._row_restarts = 0
        self._problem: str | None = None
        self._counts = ServerCounts()
        self._rate = Rate()
        self._tokens_per_second: float | None = None
        self._server: KeptServer | None = None
        self._is_asked = anyio.Event()
        self._is_over = anyio.Event()
        self._has_run = False

    @property
    def row(self) -> ServerRow:
        """The supervised server's state now."""
        is_up = self._state in ("healthy", "unhealthy")
        return ServerRow(
            number=self._number,
            state=self._state,
            base_url=self._base_url,
            node=self._address,
            pid=self._server.pid if self._server is not None else None,
            restarts=self._restarts,
            since=self._since,
            running=self._counts.running if is_up else None,
            waiting=self._counts.waiting if is_up else None,
            tokens_per_second=self._tokens_per_second if is_up else None,
            problem=self._problem,
            log=log_path(self._spec.folder, self._spec.name, self._number),
        )

    async def run(self) -> None:
        """Keep the server running until `stop`, or until its restarts are used up. A second call waits, too."""
        if self._has_run:
            await self._is_over.wait()
            return
        self._has_run = True
        try:
            await self._keep()
        except HubError as error:
            self._fail(said(error))
        except OSError as error:
            self._fail(f"the server could not be started: {error}")
        finally:
            self._is_over.set()

    async def stop(self) -> None:
        """Let requests in flight finish for a limited time, then end the server."""
        self._enter("stopping" if self._state != "failed" else "failed")
        self._is_asked.set()
        if self._has_run:
            await self._is_over.wait()
        if self._state != "failed":
            self._enter("stopped")

    async def _keep(self) -> None:
        port_tries = 0
        while not self._is_asked.is_set():
            began = time.monotonic()
            was_healthy, said = await self._one_life()
            if self._is_asked.is_set():
                return
            if not was_healthy and self._spec.port is None and any(word in said.lower() for word in _TAKEN):
                port_tries += 1
                self._port = None
                if port_tries < _PORT_TRIES:
                    continue
            self._problem = said
            if time.monotonic() - began > self._patience.steady:
                self._row_restarts = 0
            if (not was_healthy and not self._restarts) or self._row_restarts >= self._spec.restarts:
                # What never came up will not come up; what keeps dying is for somebody to look at.
                self._fail(said)
                return
            self._row_restarts += 1
            self._restarts += 1
            pause = min(self._patience.pause * 2 ** (self._row_restarts - 1), _LONGEST_PAUSE_SECONDS)
            logger.warning("server %d of %s is gone (%s); again in %g s", self._number, self._spec.name, said, pause)
            self._enter("restarting")
            with anyio.move_on_after(pause):
                await self._is_asked.wait()

    async def _one_life(self) -> tuple[bool, str]:
        """Run one server process to its end; returns whether it was ever healthy, and how it ended."""
        spec = self._spec
        self._port = self._choose_port()
        if self._state != "restarting":
            self._enter("starting")
        host = spec.host or "127.0.0.1"
        command = build_command(spec, host, self._port, self._secrets.values, os.environ)
        self._base_url = f"http://{_bracketed(self._reached_at(host))}:{self._port}/v1"
        log = Path(log_path(spec.folder, spec.name, self._number))
        async with open_server(command, self._base_url, log, self._patience.leave, self._secrets.mask) as server:
            self._server = server
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._end_on_request, server, tasks.cancel_scope)
                    said = await self._until_healthy(server)
                    was_healthy = not said
                    if was_healthy:
                        self._problem = None
                        self._enter("healthy")
                        said = await self._until_gone(server)
                    tasks.cancel_scope.cancel()
                    return was_healthy, said
            finally:
                self._server = None
                self._counts, self._tokens_per_second = ServerCounts(), None
        return True, ""  # it was asked to end

    async def _until_healthy(self, server: KeptServer) -> str:
        """Wait until the server is healthy and return an empty string, or the reason why it is not."""
        with anyio.move_on_after(self._patience.start):
            while True:
                if server.exit_code is not None:
                    return f"it ended before it was up: {await server.last_words()}"
                if await server.is_well(self._patience.answer):
                    return ""
                with anyio.move_on_after(_START_CHECK_SECONDS):
                    await server.wait()
        return f"it was not up after {self._patience.start:g} s; the last it wrote:\n{server.said}"

    async def _until_gone(self, server: KeptServer) -> str:
        """Check a healthy server until it has to be restarted; returns the reason."""
        blips, silent_since = 0, 0.0
        while True:
            with anyio.move_on_after(self._patience.check):
                await server.wait()
            if server.exit_code is not None:
                return f"it ended: {await server.last_words()}"
            if await server.is_well(self._patience.answer):
                blips = 0
                if self._state == "unhealthy":
                    self._enter("healthy")
                self._counts = await server.counts(self._patience.answer)
                self._tokens_per_second = self._rate.add(time.monotonic(), self._counts.generated)
                continue
            if blips == 0:
                silent_since = time.monotonic()
            blips += 1
            if blips >= _BLIPS and self._state == "healthy":
                self._enter("unhealthy")
            if time.monotonic() - silent_since > self._patience.unhealthy:
                return (
                    f"it lived and did not answer for {self._patience.unhealthy:g} s; the last it wrote:\n{server.said}"
                )

    async def _end_on_request(self, server: KeptServer, life: anyio.CancelScope) -> None:
        """After `stop`, wait for requests in flight at most `drain` seconds, then cancel the server's scope."""
        await self._is_asked.wait()
        with anyio.move_on_after(self._patience.drain):
            # Nobody tells: its counters have to be looked at.
            while (await server.counts(self._patience.answer)).in_flight:  # noqa: ASYNC110
                await anyio.sleep(_DRAIN_CHECK_SECONDS)
        life.cancel()

    def _choose_port(self) -> int:
        """The requested port; else the server's previous one, so that clients find it again; else a free one."""
        host = self._spec.host or "127.0.0.1"
        if self._spec.port is not None:
            port = self._spec.port + self._number
            if problem := _why_taken(host, port):
                raise HubError(
                    f"replica {self._number} cannot listen on {host}:{port}: {problem}; "
                    "take another --port, or leave it out for free ones"
                )
            return port
        if self._port is not None and not _why_taken(host, self._port):
            return self._port
        with _bound(host, 0) as free:
            return int(free.getsockname()[1])

    def _reached_at(self, host: str) -> str:
        return self._address if host in ("0.0.0.0", "::") else host

    def _fail(self, problem: str) -> None:
        self._problem = problem
        self._enter("failed")

    def _enter(self, state: ServerState) -> None:
        if state != self._state:
            self._state, self._since = state, time.time()
        self._on_change()


def _bound(host: str, port: int) -> socket.socket:
    """A socket bound to the port as a server would bind it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
        return holder
    except OSError:
        holder.close()
        raise


def _why_taken(host: str, port: int) -> str:
    """Why the port cannot be bound; empty if it can."""
    try:
        with _bound(host, port):
            return ""
    except OSError as error:
        return error.strerror or str(error)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
