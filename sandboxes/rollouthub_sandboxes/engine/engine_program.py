"""One command run through the engine's own exec: started, fed, read, and its exit status."""

import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Literal

import anyio

from rollouthub.errors import SandboxError
from rollouthub.sandbox import Command, CommandLimits, CommandNotStarted, Finished, Output
from rollouthub_sandboxes.engine.attach_stream import Attached, start_exec
from rollouthub_sandboxes.engine.engine import Engine, EngineError

NOT_STARTED = (126, 127)
_REFUSALS = ("OCI runtime exec failed", "executable file", "unable to find user", "chdir to cwd")


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """A command in the terms of the engine's exec API."""

    argv: list[str]
    cwd: str
    environment: Mapping[str, str]
    user: str


def worded(command: Command, limits: CommandLimits) -> list[str]:
    """A command's arguments; limits are set by a shell that then executes the command in its place."""
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    if not argv or any("\0" in part for part in argv):
        raise CommandNotStarted(f"{argv!r} is no command: it is empty, or has a NUL character in it", "EINVAL")
    asked = [
        ("-t", limits.cpu_seconds and max(1, int(limits.cpu_seconds))),
        ("-v", limits.memory_bytes and limits.memory_bytes >> 10),
        ("-f", limits.file_bytes and max(1, limits.file_bytes >> 9)),
    ]
    words = " && ".join(f"ulimit {option} {value}" for option, value in asked if value)
    return ["/bin/sh", "-c", f'{words} && exec "$@"', "sh", *argv] if words else argv


class Capped:
    """Keeps the beginning and the end of a stream within a fixed number of bytes."""

    def __init__(self, keep_bytes: int) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._room, self._keep = keep_bytes - keep_bytes // 2, keep_bytes // 2
        self._dropped = 0

    def take(self, data: bytes) -> None:
        """Add data of the stream."""
        head = data[: self._room]
        self._head += head
        self._room -= len(head)
        self._tail += data[len(head) :]
        over = len(self._tail) - self._keep
        if over > 0:
            del self._tail[:over]
            self._dropped += over

    @property
    def output(self) -> Output:
        """The output that was kept."""
        if self._dropped:
            return Output(bytes(self._head), bytes(self._tail), self._dropped)
        return Output(bytes(self._head + self._tail))


class EngineProgram:
    """A running command."""

    def __init__(self, engine: Engine, exec_id: str, attached: Attached, shown: str) -> None:
        self._engine, self._id, self._attached, self._shown = engine, exec_id, attached, shown
        self._started = time.monotonic()
        self._said = b""
        self.has_ended = False

    @classmethod
    async def begin(cls, engine: Engine, container: str, command: EngineCommand) -> "EngineProgram":
        """Start a command.

        Raises:
            CommandNotStarted: there is no such program, user or folder.
            EngineError: the engine or the container is gone.
        """
        shown = " ".join(command.argv)[:80]
        try:
            made = await engine.call(
                engine.api.exec_create,
                container,
                command.argv,
                stdin=True,
                user=command.user,
                environment=command.environment,
                workdir=command.cwd,
            )
            return cls(engine, made["Id"], await start_exec(engine, made["Id"]), shown)
        except EngineError as error:
            if any(sign in str(error) for sign in _REFUSALS):
                raise CommandNotStarted(f"{shown!r} could not be started: {error}", "ENOENT") from error
            raise

    async def send(self, data: bytes) -> None:
        """Write to its standard input; data is dropped once the command has ended."""
        try:
            await self._attached.send(data)
        except OSError:
            return

    async def send_eof(self) -> None:
        """Close its standard input."""
        await self._attached.send_eof()

    async def output(self) -> AsyncIterator[tuple[Literal["stdout", "stderr"], bytes]]:
        """Pieces of the command's output as they come, each with the name of its stream."""
        while pieces := await self._attached.pieces():
            for side, data in pieces:
                if len(self._said) < 500:
                    self._said += data[:500]
                yield side, data
        self.has_ended = True

    async def wait(self) -> Finished:
        """Wait for the command's end; return its exit status and its run time in seconds.

        Raises:
            CommandNotStarted: the command could not be executed.
            SandboxError: its container is gone.
        """
        while not self.has_ended:
            async for _ in self.output():
                pass
        facts = await self._engine.call_again(self._engine.api.exec_inspect, self._id)
        status = facts.get("ExitCode")
        if facts.get("Running") or status is None:
            raise SandboxError(f"the sandbox is gone: {self._engine.name} lost the command {self._shown!r}")
        said = self._said.decode(errors="replace")
        if status in NOT_STARTED and any(sign in said for sign in _REFUSALS):
            raise CommandNotStarted(
                f"{self._shown!r} could not be started: {said.strip()}", "ENOENT" if status == 127 else "EACCES"
            )
        return Finished(int(status), seconds=time.monotonic() - self._started)

    async def run(self, stdin: bytes, keep_bytes: int) -> Finished:
        """Write `stdin`, read the output to its end, and return the result with up to `keep_bytes` of each stream."""
        kept = {"stdout": Capped(keep_bytes), "stderr": Capped(keep_bytes)}

        async def feed() -> None:
            await self.send(stdin)
            await self.send_eof()

        async with anyio.create_task_group() as group:
            group.start_soon(feed)
            async for side, data in self.output():
                kept[side].take(data)
            group.cancel_scope.cancel()
        done = await self.wait()
        return Finished(
            done.exit_status, kept["stdout"].output, kept["stderr"].output, seconds=time.monotonic() - self._started
        )

    async def aclose(self) -> None:
        """Close its streams."""
        await self._attached.aclose()
