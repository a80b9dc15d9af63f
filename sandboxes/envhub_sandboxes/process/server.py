"""Starting the fork server, with the best walls that can be had, and talking to it."""

import atexit
import json
import os
import select
import socket
import subprocess
import sys
import weakref
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import envhub_sandboxes
from envhub import SandboxError
from envhub_sandboxes.jail import request

START_SECONDS = 30.0
_ROOT = str(Path(envhub_sandboxes.__file__).parents[1])
_MAIN = (
    "import sys; sys.path.append(sys.argv.pop(1)); from envhub_sandboxes.jail.server import main; "
    "sys.path.pop(); main()"
)


class ForkServer:
    """A running fork server. Its environment is empty; of the hub's open files it has one socket."""

    def __init__(self, walls: str) -> None:
        door, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._door = door
        self.walls = walls
        with theirs:
            number = theirs.fileno()
            self._process = subprocess.Popen(
                [_python(), "-I", "-S", "-c", _MAIN, _ROOT, str(number), walls],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(number,),
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                cwd="/",
                start_new_session=True,
            )
        _running.add(self)
        try:
            self._greet()
        except OSError:
            self.close()
            raise

    def _greet(self) -> None:
        """Wait until it is up, and prove that it runs a program.

        Raises:
            OSError: it does not.
        """
        greeting = self._wait(self._door).decode()
        if greeting != self.walls:
            raise OSError(greeting.removeprefix("! ") or "the fork server ended while it started")
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                self.send([theirs.fileno()])
            ours.sendall(request.pack(_TRIAL, b"print(6 * 7, flush=True)", b""))
            answer = bytearray()
            while piece := self._wait(ours):
                answer += piece
        try:
            header, out, err = request.unpack(bytes(answer))
        except (EOFError, json.JSONDecodeError):
            raise OSError("a first program came to nothing") from None
        if out != b"42\n" or header.get("status") != 0:
            raise OSError(header.get("fault") or err.decode(errors="replace") or f"a first program ended with {header}")

    def _wait(self, end: socket.socket) -> bytes:
        waiting = select.poll()
        waiting.register(end, select.POLLIN)
        if not waiting.poll(START_SECONDS * 1000):
            raise OSError(f"the fork server gave no sign within {START_SECONDS:g} s")
        return end.recv(1 << 16)

    @property
    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def send(self, fds: Sequence[int]) -> None:
        """Have a keeper forked for these sockets.

        Raises:
            OSError: the server is gone.
        """
        socket.send_fds(self._door, [b"+"], list(fds))

    def close(self) -> None:
        """End it. The keepers of programs under way end when the sockets to them do."""
        self._door.close()
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        _running.discard(self)


_TRIAL = {
    "cpu_seconds": 10,
    "wall_seconds": 20,
    "memory_bytes": 1 << 30,
    "output_bytes": 1000,
    "file_bytes": 1000,
    "processes": 16,
    "is_compiled": False,
    "is_hidden": False,
}


def start_server(kinds: Sequence[str]) -> ForkServer:
    """A fork server with the first of these walls that can be had; blocks for some 0.1 s.

    Raises:
        SandboxError: none can; says why each cannot.
    """
    reasons: list[str] = []
    for walls in kinds:
        try:
            return ForkServer(walls)
        except OSError as error:
            reasons.append(f"{walls}: {error}")
    raise SandboxError(f"no process sandbox can be had here ({'; '.join(reasons)})", retryable=False)


def _python() -> str:
    """The interpreter below any virtual environment: what it imports stands below its own prefix."""
    return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())


_running: "weakref.WeakSet[ForkServer]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for server in tuple(_running):
        server.close()
