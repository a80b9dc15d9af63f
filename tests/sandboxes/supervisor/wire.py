"""The hub's end of a supervisor's wire, one frame at a time, for tests that look at the frames themselves."""

import os
import select
import socket
import struct
import subprocess
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from rollouthub_sandboxes.supervisor import frames
from rollouthub_sandboxes.supervisor.frames import HEADER, Ended, frame, read_ended, string, strings

SECONDS = 30.0
"""The most that any wait of a test takes, also on a crowded machine."""


@dataclass
class Answer:
    """All that came on a channel up to its end."""

    kind: str = ""
    payload: bytes = b""
    output: bytes = b""
    errors: bytes = b""
    credits: list[int] = field(default_factory=list[int])

    @property
    def ended(self) -> Ended:
        """How the command ended."""
        assert self.kind == "E", (self.kind, self.payload)
        return read_ended(self.payload)

    @property
    def number(self) -> int:
        """What a request was answered with."""
        assert self.kind == "e", (self.kind, self.payload)
        return int.from_bytes(self.payload, "little")

    @property
    def failure(self) -> tuple[int, str]:
        """The errno and what was tried."""
        assert self.kind == "f", (self.kind, self.payload)
        return int.from_bytes(self.payload[:4], "little"), self.payload[8:].decode()


class Wire:
    """A supervisor started as a process of its own, and the connection to it."""

    def __init__(self, command: Sequence[str | Path], **started: Any) -> None:
        self.socket, theirs = socket.socketpair()
        with theirs:
            fd = theirs.fileno()
            self.process = subprocess.Popen(command, stdin=fd, stdout=fd, stderr=subprocess.PIPE, **started)
        self.socket.settimeout(SECONDS)
        self._incoming = bytearray()
        self._waiting: dict[int, deque[tuple[str, bytes]]] = defaultdict(deque)
        self._last = 0
        kind, self.hello = self.next(0)
        assert kind == "h"

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()
        try:
            self.process.wait(SECONDS)
        finally:
            self.process.kill()
            assert self.process.stderr is not None
            self.process.stderr.close()

    @property
    def pid(self) -> int:
        """Its process id as it sees it."""
        return struct.unpack_from("<I", self.hello, 4)[0]

    def send(self, kind: str, channel: int, payload: bytes = b"") -> None:
        """Send a frame."""
        self.socket.sendall(frame(kind, channel, payload))

    def _read(self) -> None:
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError("the supervisor closed its stream")
        self._incoming += data
        at = 0
        while len(self._incoming) - at >= HEADER.size:
            size, kind, channel = HEADER.unpack_from(self._incoming, at)
            if len(self._incoming) - at < 4 + size:
                break
            payload = bytes(self._incoming[at + HEADER.size : at + 4 + size])
            self._waiting[channel].append((chr(kind), payload))
            at += 4 + size
        del self._incoming[:at]

    def next(self, channel: int) -> tuple[str, bytes]:
        """The next frame of a channel."""
        until = time.monotonic() + SECONDS
        while not self._waiting[channel]:
            assert time.monotonic() < until, f"nothing came on channel {channel}"
            self._read()
        return self._waiting[channel].popleft()

    def has(self, channel: int) -> bool:
        """Whether something of a channel lies here, or in the stream right now."""
        while select.select([self.socket], [], [], 0)[0]:
            self._read()
        return bool(self._waiting[channel])

    def answer(self, channel: int, *, takes: bool = True) -> Answer:
        """All up to a channel's end; `takes` gives credit for output as it comes."""
        answer, output, errors = Answer(), bytearray(), bytearray()
        while True:
            kind, payload = self.next(channel)
            if kind == "d":
                output += payload
            elif kind == "D":
                errors += payload
            elif kind == "i":
                answer.credits.append(int.from_bytes(payload, "little"))
            else:
                answer.kind, answer.payload = kind, payload
                answer.output, answer.errors = bytes(output), bytes(errors)
                return answer
            if takes and kind in "dD":
                self.send("A", channel, struct.pack("<I", len(payload)))

    def ask(self, kind: str, payload: bytes = b"") -> Answer:
        """Send a request on a channel of its own and wait for its answer."""
        channel = self.channel()
        self.send(kind, channel, payload)
        return self.answer(channel)

    def channel(self) -> int:
        """A number not used before."""
        self._last += 1
        return self._last

    def start(
        self,
        command: str | Sequence[str],
        *,
        timeout_ms: int = 60_000,
        flags: int = 0,
        keep: int = 1 << 20,
        user: str = "",
        cwd: str = "",
        environment: Mapping[str, str] | None = None,
        cpu_seconds: int = 0,
        memory: int = 0,
        file: int = 0,
    ) -> int:
        """Order a command (a string: of the shell); its channel."""
        argv = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        pairs = [f"{name}={value}" for name, value in (environment or {}).items()]
        channel = self.channel()
        head = struct.pack("<IIQIQQ", timeout_ms, flags, keep, cpu_seconds, memory, file)
        self.send("X", channel, head + string(user) + string(cwd) + strings(argv) + strings(pairs))
        return channel

    def run(self, command: str | Sequence[str], **order: Any) -> Answer:
        """A command from its order to its end."""
        return self.answer(self.start(command, **order))

    def out(self, command: str | Sequence[str], **order: Any) -> bytes:
        """What a command that succeeds wrote."""
        answer = self.run(command, **order)
        assert answer.ended.status == 0, (answer.ended, answer.errors)
        return answer.output + answer.ended.stdout_tail

    def write(self, path: str | Path, content: bytes, *, mode: int = 0o644, user: str = "") -> Answer:
        """Write a file of less than a window."""
        channel = self.channel()
        self.send("P", channel, struct.pack("<I", mode) + string(user) + string(str(path)))
        if content:
            self.send("I", channel, content)
        self.send("I", channel)
        return self.answer(channel)

    def read(self, path: str | Path, *, most: int = 1 << 30, flags: int = 0) -> Answer:
        """Read a file."""
        return self.ask("R", struct.pack("<QI", most, flags) + string(str(path)))

    def listing(self, path: str | Path, *, recursive: bool = True, most: int = 10_000) -> Answer:
        """List a folder."""
        return self.ask("L", struct.pack("<II", frames.RECURSIVE if recursive else 0, most) + string(str(path)))

    def end(self) -> int:
        """Wait until it has ended by itself; its exit status."""
        return self.process.wait(SECONDS)

    def said(self) -> str:
        """What it said on its way out."""
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()


class Victims:
    """A fifo that processes hold open while they live: a byte shows each alive, and its end all of them dead."""

    def __init__(self, folder: Path, name: str = "victims") -> None:
        self.path = folder / name
        os.mkfifo(self.path)
        self.path.chmod(0o666)
        self._fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)

    def __enter__(self) -> "Victims":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        os.close(self._fd)

    @property
    def hold(self) -> str:
        """Shell: hold the fifo open from here on, and show a process alive."""
        return f"exec 9>{self.path}; echo x >&9"

    def seen(self, count: int = 1) -> None:
        """Wait until so many have shown themselves alive."""
        data = b""
        until = time.monotonic() + SECONDS
        while data.count(b"x") < count:
            assert time.monotonic() < until, f"{data.count(b'x')} of {count} victims came up"
            select.select([self._fd], [], [], 0.05)
            try:
                piece = os.read(self._fd, 1 << 16)
            except BlockingIOError:
                continue
            data += piece
            if not piece:  # nobody holds it yet, or any more: it is readable all the time then
                select.select([], [], [], 0.005)

    def are_dead(self) -> bool:
        """Whether nobody holds it any more, right now."""
        try:
            while os.read(self._fd, 1 << 16):
                pass
        except BlockingIOError:
            return False
        return True

    def die(self) -> None:
        """Wait until nobody holds it any more."""
        until = time.monotonic() + SECONDS
        while not self.are_dead():
            assert time.monotonic() < until, "a victim lives"
            select.select([self._fd], [], [], 0.05)
