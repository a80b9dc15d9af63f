"""Sandboxes: the commands and files in them, and the protocols that every provider implements.

Providers are found through the entry-point group `rollouthub.sandboxes`: name → a function without arguments that
returns an async context manager of a `SandboxProvider`.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from rollouthub.errors import ConfigError, HubError
from rollouthub.sandbox_spec import (
    GIB as GIB,
)
from rollouthub.sandbox_spec import (
    MIB as MIB,
)
from rollouthub.sandbox_spec import (
    Build as Build,
)
from rollouthub.sandbox_spec import (
    Container as Container,
)
from rollouthub.sandbox_spec import (
    Network as Network,
)
from rollouthub.sandbox_spec import (
    Profile as Profile,
)
from rollouthub.sandbox_spec import (
    Resources as Resources,
)
from rollouthub.sandbox_spec import (
    SandboxRef as SandboxRef,
)
from rollouthub.sandbox_spec import (
    SandboxSpec as SandboxSpec,
)

OUTPUT_BYTES = 64_000
FILE_BYTES = 64 * MIB
TIMEOUT_SECONDS = 60.0
MOST_SECONDS = 24 * 3600.0
"""Most seconds that any command may run, whatever time-out is asked for."""

Command = str | Sequence[str]
"""A program and its arguments, or a text that the sandbox's `/bin/sh` runs as a script."""


@dataclass(frozen=True, slots=True)
class Output:
    """One output stream of a command: its beginning, and, if it was too long to keep, its end."""

    head: bytes = b""
    tail: bytes = b""
    dropped_bytes: int = 0
    """Bytes dropped between `head` and `tail`; 0 if `head` is all of the output."""

    @property
    def text(self) -> str:
        """The output decoded as UTF-8, with a line that gives the number of dropped bytes if there are any."""
        head, tail = self.head.decode(errors="replace"), self.tail.decode(errors="replace")
        return f"{head}\n[… {self.dropped_bytes:,} bytes dropped …]\n{tail}" if self.dropped_bytes else head + tail


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended, with its output."""

    exit_status: int | None
    """As `subprocess` gives it, negative for a signal; None if stopped at its deadline or on request."""
    stdout: Output = Output()
    stderr: Output = Output()
    timed_out: bool = False
    out_of_memory: bool = False
    """Whether the kernel killed a process for lack of memory (from a counter, not from the exit status)."""
    used_up_its_cpu: bool = False
    """Whether it was stopped because it used up its CPU time."""
    seconds: float = 0.0
    """Wall time in seconds."""
    cpu_seconds: float = 0.0
    """CPU time in seconds of its processes that have ended."""
    survivors: int = 0
    """Number of processes that it left running; 0 after a timeout, a kill, or with `keeps_background=False`."""


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """Limits of one command, within the sandbox's own resources; None is no limit."""

    cpu_seconds: float | None = None
    """CPU seconds of each of its processes."""
    memory_bytes: int | None = None
    """Bytes of address space of each of its processes."""
    file_bytes: int | None = None
    """Most bytes of a file that it writes."""


Limits = CommandLimits
"""Old name of `CommandLimits`, kept until version 0.2."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """An entry of a file listing; links are not followed."""

    path: str
    kind: Literal["file", "directory", "symlink", "other"]
    bytes: int
    mode: int
    """Permission bits."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file copied into or out of a sandbox."""

    path: str
    """Relative path without `..`."""
    data: bytes
    mode: int = 0o644


def folders_above(paths: Iterable[str]) -> set[str]:
    """All folders above absolute paths. Takes time proportional to the paths' length, because agents choose them."""
    found: set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in found:
            found.add(folder)
            folder = folder.rpartition("/")[0]
        found.add("/")
    return found


class SandboxFileError(HubError):
    """A file in a sandbox could not be read, written or listed; the sandbox itself still works.

    `reason` is the errno's name, such as `ENOENT` or `ENOSPC`; `EFBIG` if the file is larger than allowed.
    """

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        super().__init__(message)


class CommandNotStarted(HubError):
    """A command could not be started: no such program, user or working directory; the sandbox itself still works."""

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        super().__init__(message)


class ProviderUnavailable(ConfigError):
    """What a provider needs, such as a container engine, is missing here; `auto` then tries the next one."""


class Program(Protocol):
    """A running command. Leaving its context kills all its processes."""

    async def send(self, data: bytes) -> None:
        """Write to its standard input, at the speed at which it reads; data for a program that has ended is dropped."""
        ...

    async def send_eof(self) -> None:
        """Close its standard input."""
        ...

    def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Its output in pieces, as it is written, to its end; the program waits for a slow reader.

        The `Finished` of a program whose output is read this way has empty outputs.
        """
        ...

    async def wait(self) -> Finished:
        """Wait for its end. Its output must be read meanwhile, or the program may block on writing.

        Raises:
            SandboxError: the sandbox broke.
        """
        ...

    async def kill(self, signal: int | None = None) -> None:
        """Kill all its processes and verify that they are dead; with `signal`, only send it to the process group."""
        ...


class Snapshot(Protocol):
    """The files of a sandbox at one moment, from which others can be opened. Stored by the provider until `discard`."""

    @property
    def id(self) -> str: ...
    @property
    def changed(self) -> Sequence[str]:
        """Paths that differ from the image, sorted, if the provider can tell."""
        ...

    async def restored(self, paths: Sequence[str]) -> "Snapshot":
        """A snapshot in which these paths, and everything below them, are as in the image.

        No program of either takes part, and no link is followed. Restored paths are no longer in `changed`; a folder
        that differs only in its own date stays there. Returns the snapshot itself if nothing had to be restored.

        Raises:
            SandboxError: the snapshot cannot be made.
        """
        ...

    async def discard(self) -> None:
        """Free its storage; idempotent."""
        ...


class Sandbox(Protocol):
    """An isolated place for one episode's tools, never reused for another episode.

    Every method raises `SandboxError` if the sandbox itself broke; that is never reported as a program's output.
    """

    @property
    def id(self) -> str: ...
    @property
    def ref(self) -> SandboxRef: ...
    @property
    def workdir(self) -> str: ...
    @property
    def is_alive(self) -> bool:
        """False once the sandbox broke or ended; changes without a call."""
        ...

    async def exec(
        self,
        command: Command,
        *,
        stdin: bytes = b"",
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        output_bytes: int = OUTPUT_BYTES,
        limits: CommandLimits = CommandLimits(),
        keeps_background: bool = True,
    ) -> Finished:
        """Run a command to its end.

        At its deadline, and when the caller is cancelled, all its processes are killed and verified dead, `setsid` and
        double-forked children included. Processes left behind on a normal end keep running, unless `keeps_background`
        is False. `output_bytes` of each stream are kept, half from its beginning and half from its end.

        Raises:
            CommandNotStarted: no such program, user or folder.
            SandboxError: the sandbox broke.
        """
        ...

    def start(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_seconds: float | None = None,
        limits: CommandLimits = CommandLimits(),
    ) -> AbstractAsyncContextManager[Program]:
        """Run a command in the background, with access to its streams; leaving the context kills all its processes.

        Raises:
            CommandNotStarted: no such program, user or folder.
            SandboxError: the sandbox broke.
        """
        ...

    async def read_file(self, path: str, *, max_bytes: int = FILE_BYTES, follows_links: bool = True) -> bytes:
        """A regular file's bytes; with `follows_links=False` no part of its path may be a symbolic link.

        Raises:
            SandboxFileError: the file is missing, not regular, not readable, or larger than `max_bytes`.
        """
        ...

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Write a whole file and create missing folders. A link at `path` is replaced, not followed.

        Raises:
            SandboxFileError: the file cannot be written (`EROFS`, `ENOSPC`, `EACCES` …).
        """
        ...

    async def list_files(self, path: str, *, recursive: bool = False, max_entries: int = 10_000) -> list[FileEntry]:
        """The entries of a folder (or the one file at `path`), sorted by path.

        Raises:
            SandboxFileError: `path` is missing, or there are more than `max_entries`.
        """
        ...

    async def collect(self, paths: Sequence[str], *, max_bytes: int = FILE_BYTES) -> list[File]:
        """The regular files at or below absolute `paths`; missing paths are left out.

        Links, devices and sockets are left out; no link is followed on the way. A file's `path` is its absolute path
        without the leading slash.

        Raises:
            SandboxFileError: the files are larger than `max_bytes` together.
        """
        ...

    async def place(self, files: Iterable[File], below: str = "/", *, user: str | None = None) -> None:
        """Write files below a folder.

        Raises:
            SandboxFileError: a file cannot be written, or its path leaves the folder.
        """
        ...

    async def stop(self) -> int:
        """Kill every process in it and verify it; returns their number. Files and commands still work afterwards."""
        ...

    async def forward(self, port: int, connect: "Connector") -> None:
        """Listen on `127.0.0.1:port` in the sandbox; each connection is forwarded to one that `connect` opens.

        Raises:
            SandboxFileError: the port cannot be opened.
        """
        ...

    async def connect(self, port: int) -> "ByteStream":
        """Connect to `127.0.0.1:port` in the sandbox, where a program of it listens.

        Raises:
            SandboxFileError: nobody listens there (`ECONNREFUSED`), or the connection cannot be had.
            NotOffered: the provider cannot connect into its sandboxes.
        """
        ...

    async def snapshot(self) -> Snapshot:
        """Save its current files, to open further sandboxes from.

        Raises:
            NotOffered: the provider has no snapshots.
            SandboxFileError: the files are larger than the sandbox may hold (`EDQUOT`).
        """
        ...


@runtime_checkable
class EnterableSandbox(Protocol):
    """A sandbox in which a person can open a shell; not every provider has this."""

    def way_in(self) -> Container | tuple[str, ...]:
        """The container, or a command of this machine that opens a shell in the sandbox.

        Raises:
            NotOffered: no shell can be opened; says why.
        """
        ...


class ByteStream(Protocol):
    """A connection that can be read and written."""

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""
        ...

    async def send(self, data: bytes) -> None: ...
    async def send_eof(self) -> None: ...
    async def aclose(self) -> None: ...


class Connector(Protocol):
    """Opens one connection to a named socket of the hub."""

    async def __call__(self) -> ByteStream: ...


class SandboxProvider(Protocol):
    """Makes sandboxes. One provider serves a whole process, many episodes at once."""

    @property
    def name(self) -> str: ...

    async def prepare(self, spec: SandboxSpec) -> None:
        """Prepare what all sandboxes of a spec share: the image, built if necessary, and a few sandboxes in reserve.

        Raises:
            ConfigError: the provider lacks something the spec asks for; it is refused, never degraded.
            SandboxError: the image is not available.
        """
        ...

    def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A fresh sandbox, never used before; it is removed after the context ends, without waiting for the removal.

        With a snapshot it starts from those files instead of the image's.

        Raises:
            ConfigError: as `prepare`.
            SandboxFileError: the files of the snapshot keep a sandbox from starting.
            SandboxError: no sandbox can be opened.
        """
        ...
