"""A driver with every bad habit: what a `ForeignRuntime` has to stand."""

import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

from rollouthub_servers.foreign.serving import Refused, Session, arguments, serve, socket_path


class World:
    """One session's own."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def say(self, text: str) -> list[str]:
        """What was said in this session."""
        self.said.append(text)
        return self.said

    def refuse(self) -> None:
        """Say no."""
        raise Refused("not before noon")

    def fail(self) -> None:
        """Fail as a library does."""
        raise KeyError("lemma")

    def die(self) -> None:
        """End without a word but one in the log."""
        sys.stderr.write("the last straw\n")
        os.kill(os.getpid(), signal.SIGKILL)

    def freeze(self) -> None:
        """Stop answering anybody."""
        os.kill(os.getpid(), signal.SIGSTOP)
        threading.Event().wait()  # this thread may run on for a moment

    def dawdle(self, file: str) -> None:
        """Take long, alone."""
        while not Path(file).exists():
            time.sleep(0.01)

    def read(self, path: str) -> str:
        """Read a file."""
        return Path(path).read_text()

    def write(self, path: str) -> None:
        """Write a file."""
        Path(path).write_text("x")

    def reach(self, port: int) -> None:
        """Connect to the machine."""
        socket.create_connection(("127.0.0.1", port), timeout=5).close()

    def variables(self) -> dict[str, str]:
        """All that it was given."""
        return dict(os.environ)

    def processes(self) -> list[str]:
        """The processes that it sees."""
        return [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]

    def imports(self, name: str) -> Any:
        """Import a module."""
        return repr(__import__(name))

    def nan(self) -> float:
        """What JSON does not know."""
        return float("nan")

    def fill(self, size: int) -> int:
        """Take memory."""
        return len(bytearray(size))

    def burn(self, most: float) -> None:
        """Spend CPU time."""
        while time.process_time() < most:
            pass

    def uid(self) -> int:
        """Who it is."""
        return os.getuid()


def open_world() -> Session:
    """A session's functions."""
    world = World()
    return {name: getattr(world, name) for name in dir(world) if not name.startswith("_") and name != "said"}


def speak_garbage() -> None:
    """Answer everybody with what is no JSON."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(socket_path())
    listener.listen()
    while True:
        connection, _ = listener.accept()
        with connection:
            if connection.recv(1000):
                connection.sendall(b"\x00 HTTP/1.1 200 hello\n")


if __name__ == "__main__":
    habit = arguments()
    if habit == "garbage":
        speak_garbage()
    elif habit == "silence":
        signal.pause()
    elif habit == "refusal":
        raise ImportError("this library needs Python 4")
    else:
        serve(open_world, forked_seconds=5 if habit == "forked" else None)
