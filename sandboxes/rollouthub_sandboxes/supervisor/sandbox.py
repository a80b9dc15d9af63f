"""`SupervisedSandbox`: the `Sandbox` protocol over a connection to a supervisor, whatever the supervisor runs in."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

import anyio

from rollouthub.errors import NotOffered
from rollouthub.sandbox import (
    FILE_BYTES,
    OUTPUT_BYTES,
    TIMEOUT_SECONDS,
    ByteStream,
    Command,
    CommandLimits,
    Connector,
    Container,
    File,
    FileEntry,
    Finished,
    Program,
    SandboxRef,
    Snapshot,
)
from rollouthub_sandboxes.supervisor import frames
from rollouthub_sandboxes.supervisor.channel import Failure
from rollouthub_sandboxes.supervisor.client import ANSWER_SECONDS, Connection
from rollouthub_sandboxes.supervisor.execution import Order, execute, order
from rollouthub_sandboxes.supervisor.port_forward import connect, forward
from rollouthub_sandboxes.supervisor.running_command import SupervisedProgram
from rollouthub_sandboxes.supervisor.sandbox_files import collect, list_files, place, read_file, write_file

STOP_SECONDS = 45.0
NO_LIMITS = CommandLimits()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Defaults for the commands of a sandbox: working directory, environment, user and limits."""

    workdir: str
    environment: Mapping[str, str]
    user: str = ""
    """The user that commands run as; empty for the supervisor's default."""
    limits: CommandLimits = NO_LIMITS
    """Limits that apply to every command; a command may only tighten them."""


class SupervisedSandbox:
    """A sandbox whose supervisor is at the other end of a connection; it lives as long as the connection."""

    def __init__(
        self,
        connection: Connection,
        *,
        id: str,
        ref: SandboxRef,
        surroundings: Surroundings,
        take_snapshot: "Callable[[SupervisedSandbox], Awaitable[Snapshot]] | None" = None,
        way_in: Callable[[], Container | tuple[str, ...]] | None = None,
    ) -> None:
        """`way_in` gives the command with which a person opens a shell in the sandbox."""
        self._connection, self._surroundings, self._take_snapshot = connection, surroundings, take_snapshot
        self._id, self._ref, self._way_in = id, ref, way_in

    @property
    def id(self) -> str:
        """Its name, unique among the sandboxes of this machine."""
        return self._id

    @property
    def ref(self) -> SandboxRef:
        """The provider, user and limits really in force, for the record."""
        return self._ref

    @property
    def workdir(self) -> str:
        """The folder that commands start in."""
        return self._surroundings.workdir

    @property
    def is_alive(self) -> bool:
        """False once the connection to its supervisor is broken."""
        return self._connection.is_alive

    def way_in(self) -> Container | tuple[str, ...]:
        """What a person needs to open a shell in the sandbox.

        Raises:
            NotOffered: no shell can be opened in this sandbox.
        """
        if self._way_in is None:
            raise NotOffered("its provider offers no way into it")
        return self._way_in()

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
        limits: CommandLimits = NO_LIMITS,
        keeps_background: bool = True,
    ) -> Finished:
        """Run a command to its end."""
        flags = (frames.HAS_INPUT if stdin else 0) | (0 if keeps_background else frames.KILLS_LEFTOVERS)
        ordered = self._order(command, cwd, environment, user, timeout_seconds, limits, flags, output_bytes)
        return await execute(self._connection, ordered, stdin)

    def start(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        timeout_seconds: float | None = None,
        limits: CommandLimits = NO_LIMITS,
    ) -> AbstractAsyncContextManager[Program]:
        """Run a command in the background, with access to its streams."""
        flags = frames.STREAMS | frames.HAS_INPUT | frames.KILLS_LEFTOVERS
        ordered = self._order(command, cwd, environment, user, timeout_seconds, limits, flags)
        return SupervisedProgram(self._connection, ordered).running()

    def _order(
        self,
        command: Command,
        cwd: str | None,
        environment: Mapping[str, str] | None,
        user: str | None,
        timeout_seconds: float | None,
        limits: CommandLimits,
        flags: int,
        keep_bytes: int = 0,
    ) -> Order:
        around = self._surroundings
        return order(
            command,
            user=around.user if user is None else user,
            cwd=self._at(cwd or ""),
            environment={**around.environment, **environment} if environment else around.environment,
            timeout_seconds=timeout_seconds,
            limits=_tighter(limits, around.limits),
            flags=flags,
            keep_bytes=keep_bytes,
        )

    async def read_file(self, path: str, *, max_bytes: int = FILE_BYTES, follows_links: bool = True) -> bytes:
        """The bytes of a regular file."""
        return await read_file(self._connection, self._at(path), max_bytes=max_bytes, follows_links=follows_links)

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Write a whole file."""
        await write_file(self._connection, self._at(path), data, mode=mode, user=self._user(user))

    async def list_files(self, path: str, *, recursive: bool = False, max_entries: int = 10_000) -> list[FileEntry]:
        """The entries of a folder with their absolute paths; with `recursive`, those of its subfolders, too."""
        return await list_files(self._connection, self._at(path), recursive=recursive, max_entries=max_entries)

    async def collect(self, paths: Sequence[str], *, max_bytes: int = FILE_BYTES) -> list[File]:
        """The regular files at or below absolute paths."""
        return await collect(self._connection, paths, max_bytes=max_bytes)

    async def place(self, files: Iterable[File], below: str = "/", *, user: str | None = None) -> None:
        """Write files below a folder."""
        await place(self._connection, files, self._at(below), user=self._user(user))

    async def stop(self) -> int:
        """Kill every process in the sandbox; return how many."""
        try:
            return await self._connection.ask("Z", seconds=STOP_SECONDS)
        except Failure as failure:
            error = await self._connection.blamed(f"the sandbox's processes could not be stopped: {failure}")
            self._connection.break_off(error)
            raise error from failure
        except anyio.get_cancelled_exc_class():
            await self._connection.give_up("the sandbox's processes were not stopped in time")
            raise

    async def forward(self, port: int, connect: Connector) -> None:
        """Listen on a loopback port inside the sandbox; each connection is joined to a stream that `connect` opens."""
        await forward(self._connection, port, connect, ANSWER_SECONDS)

    async def connect(self, port: int) -> ByteStream:
        """Connect to a loopback port inside the sandbox."""
        return await connect(self._connection, port, ANSWER_SECONDS)

    async def snapshot(self) -> Snapshot:
        """Save the sandbox's files as they are now."""
        if self._take_snapshot is None:
            raise NotOffered(f"sandboxes of the provider {self._ref.provider!r} take no snapshots")
        return await self._take_snapshot(self)

    def _at(self, path: str) -> str:
        return str(PurePosixPath(self._surroundings.workdir, path))

    def _user(self, user: str | None) -> str:
        return self._surroundings.user if user is None else user


def _tighter(asked: CommandLimits, always: CommandLimits) -> CommandLimits:
    """The smaller of each pair of limits."""

    def least(first: float | None, second: float | None) -> float | None:
        given = [value for value in (first, second) if value is not None]
        return min(given) if given else None

    if asked == NO_LIMITS:
        return always
    memory_bytes, file_bytes = (
        least(asked.memory_bytes, always.memory_bytes),
        least(asked.file_bytes, always.file_bytes),
    )
    return replace(
        asked,
        cpu_seconds=least(asked.cpu_seconds, always.cpu_seconds),
        memory_bytes=None if memory_bytes is None else int(memory_bytes),
        file_bytes=None if file_bytes is None else int(file_bytes),
    )
