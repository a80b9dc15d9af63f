"""`ProcessSandbox`: runs Python programs through the fork server, and says what its walls do not hold."""

import json
import logging
import marshal
import os
import socket
from threading import Lock
from types import CodeType

import anyio
from anyio import to_thread

from envhub import SandboxError
from envhub_sandboxes.jail import request
from envhub_sandboxes.process.finished import Finished, Output
from envhub_sandboxes.process.server import ForkServer, start_server

logger = logging.getLogger(__name__)

MEMORY_BYTES = 1 << 30
OUTPUT_BYTES = 64_000
FILE_BYTES = 64 << 20
PROCESSES = 64
GRACE_SECONDS = 30.0
"""Beyond a program's deadline: for the keeper to start, clean up and answer."""

LIMITATIONS = {
    "namespaces": (
        "programs share the machine's kernel",
        "memory is limited for each process, not for a program's processes together",
        "programs see the machine's /usr and Python, read-only",
    ),
    "user": (
        "programs share the machine's kernel and see its processes",
        "memory is limited for each process, not for a program's processes together",
        "the network is not cut",
        "programs can read every file that any user of the machine may read, data sets with answers included",
    ),
    "process": (
        "programs share the machine's kernel and see its processes",
        "memory is limited for each process, not for a program's processes together",
        "the network is not cut",
        "programs can read and change every file of the user who runs the hub, data sets with answers included",
        "programs can read the environment of that user's processes, keys included, and can kill or trace them",
    ),
}
"""What each kind of walls does not hold, in words."""


class ProcessSandbox:
    """Python programs in processes of their own, each with limits, an empty folder and nothing of the hub's.

    One serves a whole process; its fork server starts with the first program, or with `prepare`.
    """

    def __init__(self, walls: tuple[str, ...] = ("namespaces", "user", "process")) -> None:
        self._walls = walls
        self._server: ForkServer | None = None
        self._starting = Lock()

    async def prepare(self) -> None:
        """Start the fork server, and warn once of what these walls do not hold.

        Raises:
            SandboxError: no walls of those allowed can be had here.
        """
        await to_thread.run_sync(self._ready)

    @property
    def isolation(self) -> str:
        """The walls in force: namespaces, user or process.

        Raises:
            SandboxError: as `prepare`.
        """
        return self._ready().walls

    @property
    def limitations(self) -> tuple[str, ...]:
        """What these walls do not hold, in words."""
        return LIMITATIONS[self.isolation]

    async def run_python(
        self,
        program: str | CodeType,
        *,
        stdin: bytes = b"",
        cpu_seconds: float = 10.0,
        wall_seconds: float = 60.0,
        memory_bytes: int = MEMORY_BYTES,
        output_bytes: int = OUTPUT_BYTES,
        channel: socket.socket | None = None,
        is_hidden: bool = False,
    ) -> Finished:
        """Run a program to its end; when this returns or is cancelled, none of its processes is left.

        `output_bytes` of each stream are kept. The program gets `channel`, which is closed here, as file descriptor 3.
        `is_hidden` keeps other programs of the same user from reading its memory, where users are all that separates
        them. The standard library is all it can import. Code that was compiled already must be ours.

        Raises:
            SandboxError: the program could not be run, or could not be ended.
        """
        limits = {
            "cpu_seconds": cpu_seconds,
            "wall_seconds": wall_seconds,
            "memory_bytes": memory_bytes,
            "output_bytes": output_bytes,
            "file_bytes": FILE_BYTES,
            "processes": PROCESSES,
            "is_compiled": isinstance(program, CodeType),
            "is_hidden": is_hidden,
        }
        code = marshal.dumps(program) if isinstance(program, CodeType) else program.encode("utf-8", "surrogatepass")
        try:
            if self._server is None:
                await self.prepare()
            control = self._hand_over(channel)
        finally:
            if channel is not None:
                channel.close()  # else the other side never sees the program's end of it close
        try:
            with anyio.move_on_after(wall_seconds + GRACE_SECONDS):
                return _finished(await _converse(control, request.pack(limits, code, stdin)))
            raise SandboxError(f"a program was not ended {GRACE_SECONDS:g} s after its deadline")
        finally:
            control.close()

    def _hand_over(self, channel: socket.socket | None) -> socket.socket:
        """Our end of a socket to a keeper that the server forks for it."""
        server = self._ready()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            fds = [theirs.fileno()] if channel is None else [theirs.fileno(), channel.fileno()]
            try:
                server.send(fds)
            except OSError as error:
                ours.close()
                server.close()
                raise SandboxError(f"the sandbox's fork server is gone: {error}") from error
        return ours

    def _ready(self) -> ForkServer:
        with self._starting:
            server = self._server
            if server is not None and server.is_alive:
                return server
            is_new = server is None
            if server is not None:
                server.close()
            server = self._server = start_server(self._walls)
        if is_new:
            told = "; ".join(LIMITATIONS[server.walls])
            logger.warning("the process sandbox (walls: %s) does not hold everything: %s", server.walls, told)
        return server

    def close(self) -> None:
        """End the fork server, and with it every program; the next one starts another."""
        with self._starting:
            if self._server is not None:
                self._server.close()
                self._server = None


_shared: ProcessSandbox | None = None
_shared_pid = 0


def process_sandbox() -> ProcessSandbox:
    """The sandbox that everybody in this process shares."""
    global _shared, _shared_pid
    if _shared is None or _shared_pid != os.getpid():  # a forked child must not speak into its parent's socket
        _shared, _shared_pid = ProcessSandbox(), os.getpid()
    return _shared


async def _converse(control: socket.socket, message: bytes) -> bytes:
    """Send a request and read the whole answer. Cancelled, it hangs up and waits until the keeper has cleaned up."""
    answer = bytearray()
    try:
        view = memoryview(message)
        while view:
            try:
                view = view[control.send(view) :]
            except BlockingIOError:
                await anyio.wait_writable(control)
        while piece := await _receive(control):
            answer += piece
    except anyio.get_cancelled_exc_class():
        control.shutdown(socket.SHUT_WR)
        with anyio.move_on_after(GRACE_SECONDS, shield=True):
            while await _receive(control):
                pass
        raise
    except OSError as error:
        raise SandboxError(f"the sandbox broke off: {error}") from error
    return bytes(answer)


async def _receive(control: socket.socket) -> bytes:
    while True:
        await anyio.wait_readable(control)
        try:
            return control.recv(1 << 18)
        except BlockingIOError:
            continue


def _finished(answer: bytes) -> Finished:
    try:
        header, out, err = request.unpack(answer)
    except (EOFError, json.JSONDecodeError) as error:
        raise SandboxError("the sandbox broke off without saying how its program ended") from error
    if "fault" in header:
        raise SandboxError(f"the sandbox could not run a program: {header['fault']}")
    if header["survived"]:
        raise SandboxError("a program left processes behind that could not be killed")
    stdout, stderr = (
        Output(kept[:gap], kept[gap:], dropped)
        for kept, gap, dropped in zip((out, err), header["gaps"], header["dropped"], strict=True)
    )
    return Finished(
        stdout=stdout,
        stderr=stderr,
        exit_status=header["status"],
        timed_out=header["timed_out"],
        seconds=header["seconds"],
        cpu_seconds=header["cpu_seconds"],
        used_up_its_cpu=header["used_up_its_cpu"],
    )
