"""The server of a running hub: a unix socket that only its user and root may use."""

import logging
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from rollouthub.engine.run_control import LiveRun
from rollouthub.errors import LiveControlError, said
from rollouthub.live.control.broadcast import Broadcast
from rollouthub.live.control.handlers import RequestHandlers
from rollouthub.live.control.live_connection import LiveConnection
from rollouthub.live.control.live_protocol import RequestProblem
from rollouthub.live.control.peer_credentials import is_trusted
from rollouthub.live.control.socket_folder import UNFINISHED, choose_path, socket_folders

logger = logging.getLogger(__name__)

MOST_CLIENTS = 32
_OPENING_SECONDS = 10.0
_FAREWELL_SECONDS = 1.0
"""Seconds that the end of a run waits for followers of whom none reads an event."""
_LONGEST_FAREWELL_SECONDS = 5.0
_ACCEPT_PAUSE_SECONDS = 1.0
_QUEUE = 64


@asynccontextmanager
async def open_live_server(
    live: LiveRun, environ: Mapping[str, str], warn: Callable[[str], None] = logger.warning
) -> AsyncGenerator[None]:
    """Let the user watch and control a run, from its start until the block is left.

    A run whose socket cannot be opened goes on without it; `warn` is called with the reason. Errors of the block are
    raised unchanged.
    """
    server = LiveServer(live, environ, warn)
    problem: BaseException | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.stand)
        try:
            yield
        except Exception as error:
            problem = error  # raised below, outside the task group, so that it arrives as it is
        except BaseException as error:
            problem = error
            raise
        finally:
            with anyio.CancelScope(shield=True), anyio.move_on_after(_LONGEST_FAREWELL_SECONDS):
                await server.farewell(problem)
            tasks.cancel_scope.cancel()
    if problem is not None:
        raise problem


class LiveServer:
    """The socket of one run, and its clients."""

    def __init__(self, live: LiveRun, environ: Mapping[str, str], warn: Callable[[str], None]) -> None:
        self._live, self._environ, self._warn = live, environ, warn
        self._broadcast = Broadcast(live)
        self._handlers = RequestHandlers(live, self._broadcast)
        self._clients = 0
        self._left = anyio.Event()
        self.path: Path | None = None
        """The socket's path, while it is open."""

    async def stand(self) -> None:
        """Serve from the run's start until cancelled; an error here does not break the run."""
        await self._live.begun.wait()
        try:
            await self._stand()
        except Exception:
            logger.exception("live control broke; the run goes on without")

    async def _stand(self) -> None:
        assert self._live.facts is not None
        try:
            with anyio.fail_after(_OPENING_SECONDS):
                path, listener = await self._open(self._live.facts.run_id)
        except TimeoutError:
            self._warn(f"live control is off: opening its socket took longer than {_OPENING_SECONDS:g} s")
            return
        except (LiveControlError, OSError) as error:
            self._warn(f"live control is off: {said(error)}")
            return
        mark = path.lstat()
        self.path = path
        logger.info("live control at %s", path)
        try:
            async with listener:
                await self._serve(listener)
        finally:
            self.path = None
            with suppress(OSError):
                now = path.lstat()
                if (now.st_dev, now.st_ino) == (mark.st_dev, mark.st_ino):  # not that of a later hub
                    path.unlink()

    async def _open(self, run_id: str) -> tuple[Path, SocketListener]:
        folders = socket_folders(self._environ)
        path = await anyio.to_thread.run_sync(choose_path, folders, run_id, abandon_on_cancel=True)
        unfinished = path.with_suffix(UNFINISHED)
        listener = await anyio.create_unix_listener(unfinished, mode=0o600, backlog=_QUEUE)
        try:
            unfinished.rename(path)  # only now it is a socket that answers, see `sweep`
        except BaseException:
            await listener.aclose()
            raise
        return path, listener

    async def _serve(self, listener: SocketListener) -> None:
        while True:
            try:
                await listener.serve(self._welcome)
            except* OSError as group:
                logger.warning("live control: no client can come in: %s", group.exceptions[0])
                await anyio.sleep(_ACCEPT_PAUSE_SECONDS)

    async def _welcome(self, stream: SocketStream) -> None:
        self._clients += 1
        try:
            async with stream:
                connection = LiveConnection(stream, self._handlers, self._broadcast, lambda: len(self._live.attempts))
                raw: socket.socket = stream.extra(SocketAttribute.raw_socket)
                if not is_trusted(raw):
                    logger.warning("live control: another user's process was turned away")
                    await connection.refuse(None, RequestProblem(kind="refused", message="this hub is another user's"))
                elif self._clients > MOST_CLIENTS:
                    message = f"{MOST_CLIENTS} clients are here already"
                    await connection.refuse(None, RequestProblem(kind="busy", message=message))
                else:
                    await connection.serve()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        except Exception:
            logger.exception("live control: a client's conversation broke")
        finally:
            self._clients -= 1
            self._left.set()

    async def farewell(self, problem: BaseException | None) -> None:
        """Send followers the last event, and wait until they have read it."""
        live = self._live
        if live.facts is None:
            return
        live.end("failed" if isinstance(problem, Exception) else "interrupted")
        assert live.ending is not None
        self._broadcast.run_ended(live.facts.run_id, live.ending)
        taken = -1
        while self._broadcast.followers and taken != self._broadcast.taken:
            taken = self._broadcast.taken
            self._left = anyio.Event()
            with anyio.move_on_after(_FAREWELL_SECONDS):
                await self._left.wait()
