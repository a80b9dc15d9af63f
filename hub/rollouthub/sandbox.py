"""Where tools run: what an environment asks of a sandbox, what it is given, and what every provider must do.

Providers are found through the entry-point group `rollouthub.sandboxes`: name → a function without arguments that
returns an async context manager of a `SandboxProvider`.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import Field

from rollouthub.errors import ConfigError, HubError
from rollouthub.frozen import Frozen

MIB, GIB = 1 << 20, 1 << 30
OUTPUT_BYTES = 64_000
FILE_BYTES = 64 * MIB
TIMEOUT_SECONDS = 60.0
MOST_SECONDS = 24 * 3600.0
"""No command runs longer, whatever is asked."""

Command = str | Sequence[str]
"""A program and its arguments; a text is a script for the sandbox's `/bin/sh`."""
Network = Literal["none", "bridge"]
Profile = Literal["hardened", "root-compat"]
"""`hardened`: no capabilities, not root, read-only root. `root-compat`: root with CHOWN, DAC_OVERRIDE, FOWNER, SETUID,
SETGID and KILL, and a writable root, for tasks that install and administer."""


class Resources(Frozen):
    """What a sandbox may use."""

    cpus: float = Field(default=1.0, gt=0)
    """Cores' worth of time; 0.5 is half of one."""
    memory_bytes: int = Field(default=1 * GIB, ge=16 * MIB)
    """Memory of all its processes together; swap is not on top of it."""
    pids: int = Field(default=256, ge=8)
    """Processes and threads at one time."""
    disk_bytes: int = Field(default=1 * GIB, ge=MIB)
    """Of each writable folder; on a writable root, of all that is written."""


class Build(Frozen):
    """An image to build from a folder."""

    context: Path
    dockerfile: str = "Dockerfile"
    """Relative to the context."""
    arguments: dict[str, str] = {}
    network: Network = "bridge"
    """What its instructions reach while it is built; what it reaches later is the sandbox's own."""
    timeout_seconds: float = Field(default=1800.0, gt=0)

    def __str__(self) -> str:
        return str(self.context / self.dockerfile)


class SandboxSpec(Frozen):
    """What an environment asks for. Two equal specs can be served from one pool."""

    image: str | Build | None = None
    """None is the provider's own base: a small Debian with `sh` and Python 3."""
    profile: Profile = "hardened"
    network: Network = "none"
    resources: Resources = Resources()
    user: str | None = None
    """Who commands run as, `name`, `uid` or `uid:gid`. None: nobody under `hardened`, else the image's own user."""
    workdir: str | None = None
    """Where commands start. None: the image's own, or `/workspace` where it has none; writable under `hardened`."""
    environment: dict[str, str] = {}
    scratch: tuple[str, ...] = ("/tmp",)
    """Writable folders besides `workdir` on a read-only root; empty at the start."""
    has_writable_root: bool = False
    """Opts an image out of the read-only root; `root-compat` always has a writable one."""
    shown: tuple[str, ...] = ()
    """Files and folders of this machine to be seen read-only at their own path, with processes; a container has what is
    in its image."""
    ttl_seconds: float = Field(default=6 * 3600.0, gt=0)
    """After which the sandbox ends by itself, whatever becomes of the hub."""


class SandboxRef(Frozen):
    """What was really in force, for the record."""

    provider: str
    walls: str
    """What separates it from the machine: `container`, `namespaces` or `limits`."""
    engine: str | None = None
    """Such as `docker 20.10.24`."""
    image: str | None = None
    image_digest: str | None = None
    profile: Profile
    network: str
    """`none`, `bridge`, or `host` where the walls do not cut it."""
    user: str
    runner: str = "supervisor"
    """What runs commands in it: `supervisor`, or `engine-exec` where that one cannot run."""
    resources: Resources
    limitations: tuple[str, ...] = ()
    """What these walls do not hold, in words."""


_Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$")]
"""Begins with no hyphen: as an argument it is never an option."""


class Container(Frozen):
    """A container, as its engine's command line names it. May come over a wire: nothing in it can be more than that."""

    engine: Literal["docker", "podman"]
    name: _Word
    address: Annotated[str, Field(pattern=r"^(unix:///|tcp://)[A-Za-z0-9_./:\[\]-]{1,250}$")] | None = None
    """Where the engine listens; None where its command line finds it by itself."""
    user: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$")] | None = None
    """Whom commands run as; None for the container's own."""

    @property
    def shell(self) -> tuple[str, ...]:
        """What to run on the engine's machine to have a shell in it."""
        words: list[str] = [self.engine]
        if self.address is not None:
            words += ["--remote", "--url", self.address] if self.engine == "podman" else ["--host", self.address]
        user = () if self.user is None else ("--user", self.user)
        return (*words, "exec", "-it", *user, self.name, "sh")


@dataclass(frozen=True, slots=True)
class Output:
    """One stream of a command: its beginning and its end, where it wrote more than is kept."""

    head: bytes = b""
    tail: bytes = b""
    dropped_bytes: int = 0
    """Between the two; 0 where everything is kept, which then is all in `head`."""

    @property
    def text(self) -> str:
        """As UTF-8, with a line that says how much is missing where it is missing."""
        head, tail = self.head.decode(errors="replace"), self.tail.decode(errors="replace")
        return f"{head}\n[… {self.dropped_bytes:,} bytes dropped …]\n{tail}" if self.dropped_bytes else head + tail


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended and what it said."""

    exit_status: int | None
    """As `subprocess` gives it: negative for a signal; None where it was stopped at its deadline or on request."""
    stdout: Output = Output()
    stderr: Output = Output()
    timed_out: bool = False
    out_of_memory: bool = False
    """The kernel killed one of its processes for want of memory (told by a counter, not by the exit status)."""
    used_up_its_cpu: bool = False
    """It was stopped for the CPU time it took."""
    seconds: float = 0.0
    """Wall time."""
    cpu_seconds: float = 0.0
    """CPU time of its processes that have ended."""
    survivors: int = 0
    """Processes it left running in the background; 0 after a timeout, a kill, or with `keeps_background=False`."""


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """What one command may use beyond the sandbox's own resources; None for no such limit."""

    cpu_seconds: float | None = None
    """CPU time of each of its processes."""
    memory_bytes: int | None = None
    """Address space of each of its processes."""
    file_bytes: int | None = None
    """Size of a file it writes."""


Limits = CommandLimits
"""The old name, until 0.2."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file as it is listed; links are not followed."""

    path: str
    kind: Literal["file", "directory", "symlink", "other"]
    bytes: int
    mode: int
    """Permission bits."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file that crosses from one place to another."""

    path: str
    """Relative, without `..`."""
    data: bytes
    mode: int = 0o644


class SandboxFileError(HubError):
    """A file in a sandbox could not be read, written or listed; the sandbox itself is well.

    `reason` is the errno's name, such as `ENOENT` or `ENOSPC`; `EFBIG` where it is over the size asked for.
    """

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        super().__init__(message)


class CommandNotStarted(HubError):
    """A command could not be started: no such program, user or working directory; the sandbox itself is well."""

    def __init__(self, message: str, reason: str) -> None:
        self.reason = reason
        super().__init__(message)


class ProviderUnavailable(ConfigError):
    """What a provider works with is not on this machine, such as an engine; `auto` then takes the next one."""


class Program(Protocol):
    """A command under way. Leaving its context kills its whole tree."""

    async def send(self, data: bytes) -> None:
        """Write to its standard input, as fast as it reads; what is sent to a program that ended is dropped."""
        ...

    async def send_eof(self) -> None:
        """Close its standard input."""
        ...

    def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """What it writes, as it comes, at the reader's pace; ends with the program.

        A streamed program's `Finished` has empty outputs.
        """
        ...

    async def wait(self) -> Finished:
        """How it ended; its output must be read meanwhile, or it may wait for that.

        Raises:
            SandboxError: the sandbox broke.
        """
        ...

    async def kill(self, signal: int | None = None) -> None:
        """Kill its whole tree, verified dead; or send one signal to its process group."""
        ...


class Snapshot(Protocol):
    """The files of a sandbox at one moment, to start others from. Kept by the provider until `discard`."""

    @property
    def id(self) -> str: ...
    @property
    def changed(self) -> Sequence[str]:
        """Paths that differ from the image, where the provider can tell; sorted."""
        ...

    async def restored(self, paths: Sequence[str]) -> "Snapshot":
        """The same files, but at these paths, and below them, what the image has there.

        No program of either takes part, and no link is followed. What was put back is no longer among the `changed`;
        a folder that differs in nothing but its own date stays there. It is itself where nothing was to be put back.

        Raises:
            SandboxError: it cannot be made.
        """
        ...

    async def discard(self) -> None:
        """Give its storage back; idempotent."""
        ...


class Sandbox(Protocol):
    """One place of its own for an episode's tools. Used once: never handed to another episode.

    Every method raises `SandboxError` where the sandbox itself broke; that is never a program's output.
    """

    @property
    def id(self) -> str: ...
    @property
    def ref(self) -> SandboxRef: ...
    @property
    def workdir(self) -> str: ...
    @property
    def is_alive(self) -> bool:
        """False once it broke or ended; turns False by itself, without a call."""
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

        At its deadline, and when the caller is cancelled, its whole tree is killed and seen dead, `setsid` and
        double-forked children included. Processes it left behind on a normal end go on, unless `keeps_background` is
        False. `output_bytes` of each stream are kept, half from its beginning and half from its end.

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
        """Run a command in the background, its streams at hand; leaving the context kills its tree.

        Raises:
            CommandNotStarted: no such program, user or folder.
            SandboxError: the sandbox broke.
        """
        ...

    async def read_file(self, path: str, *, max_bytes: int = FILE_BYTES, follows_links: bool = True) -> bytes:
        """A regular file's bytes; with `follows_links=False` no part of its path may be a symbolic link.

        Raises:
            SandboxFileError: it is not there, no regular file, not readable, or larger than `max_bytes`.
        """
        ...

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Write a whole file, its folders made where they are missing. A link at `path` is replaced, not followed.

        Raises:
            SandboxFileError: it cannot be written (`EROFS`, `ENOSPC`, `EACCES` …).
        """
        ...

    async def list_files(self, path: str, *, recursive: bool = False, max_entries: int = 10_000) -> list[FileEntry]:
        """What is below a folder (or the one file at `path`), sorted by path.

        Raises:
            SandboxFileError: it is not there, or there are more than `max_entries`.
        """
        ...

    async def collect(self, paths: Sequence[str], *, max_bytes: int = FILE_BYTES) -> list[File]:
        """The regular files at or below absolute `paths`, those that are missing left out.

        Links, devices and sockets stay behind; no link is followed on the way. A file's `path` is its absolute one
        without the leading slash.

        Raises:
            SandboxFileError: they are more than `max_bytes` together.
        """
        ...

    async def place(self, files: Iterable[File], below: str = "/", *, user: str | None = None) -> None:
        """Write files below a folder.

        Raises:
            SandboxFileError: one cannot be written, or has a path that leaves the folder.
        """
        ...

    async def stop(self) -> int:
        """Kill every process in it, verified; how many. Files can still be read, and commands still be run."""
        ...

    async def forward(self, port: int, connect: "Connector") -> None:
        """Listen on `127.0.0.1:port` inside it; each connection is carried to one that `connect` opens in the hub.

        Raises:
            SandboxFileError: the port cannot be had.
        """
        ...

    async def snapshot(self) -> Snapshot:
        """Keep its files as they are now, to open further sandboxes from.

        Raises:
            NotOffered: the provider cannot.
            SandboxFileError: they are more than the sandbox may hold (`EDQUOT`).
        """
        ...


@runtime_checkable
class EnterableSandbox(Protocol):
    """A sandbox that a person may get a shell in; not every provider has such."""

    def way_in(self) -> Container | tuple[str, ...]:
        """The container it is, or a command of this machine that gives a shell in it.

        Raises:
            NotOffered: there is no way, and why.
        """
        ...


class ByteStream(Protocol):
    """A connection's two directions."""

    async def receive(self) -> bytes:
        """Some bytes; empty at the end."""
        ...

    async def send(self, data: bytes) -> None: ...
    async def send_eof(self) -> None: ...
    async def aclose(self) -> None: ...


class Connector(Protocol):
    """Opens one connection to a named socket of the hub."""

    async def __call__(self) -> ByteStream: ...


class SandboxProvider(Protocol):
    """Makes sandboxes. One serves a whole process; safe for many episodes at once."""

    @property
    def name(self) -> str: ...

    async def prepare(self, spec: SandboxSpec) -> None:
        """Make ready what all sandboxes of a spec share: its image, built if need be, and the first few warm ones.

        Raises:
            ConfigError: the spec asks for what this provider does not have; it is refused, never degraded.
            SandboxError: the image cannot be had.
        """
        ...

    def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AbstractAsyncContextManager[Sandbox]:
        """A fresh sandbox, never used before; gone (and the exit does not wait for that) when the context ends.

        With a snapshot it starts from those files instead of the image's.

        Raises:
            ConfigError: as `prepare`.
            SandboxError: none can be had.
        """
        ...
