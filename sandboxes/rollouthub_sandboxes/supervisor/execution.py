"""Running commands: encoding the request, and decoding how a command ended."""

import math
import signal
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from rollouthub.errors import SandboxError
from rollouthub.sandbox import MOST_SECONDS, Command, CommandLimits, CommandNotStarted, Finished, Output
from rollouthub_sandboxes.supervisor import frames
from rollouthub_sandboxes.supervisor.channel import Channel, Failure, Side, Streaming

if TYPE_CHECKING:
    from rollouthub_sandboxes.supervisor.client import Connection

GRACE_SECONDS = 30.0
"""Seconds after a command's deadline for its processes to be killed and its end to be reported."""
KILL_SECONDS = 30.0
_EXEC = struct.Struct("<IIQIQQ")
_NOT_OUT_OF_BOUNDS = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Order:
    """A checked command, encoded for the supervisor."""

    command: str
    """The command as messages show it."""
    payload: bytes
    seconds: float
    keep_bytes: int


def order(
    command: Command,
    *,
    user: str,
    cwd: str,
    environment: Mapping[str, str],
    timeout_seconds: float | None,
    limits: CommandLimits,
    flags: int,
    keep_bytes: int = 0,
) -> Order:
    """Check a command and encode it for the supervisor.

    Raises:
        CommandNotStarted: it is empty, has a NUL character, is not UTF-8, or is too long.
    """
    argv = ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
    shown = _shown(argv)
    if not argv:
        raise CommandNotStarted("an empty command cannot be started", "EINVAL")
    seconds = MOST_SECONDS if timeout_seconds is None else min(max(timeout_seconds, 0.001), MOST_SECONDS)
    pairs = [f"{name}={value}" for name, value in environment.items()]
    try:
        texts = b"".join((frames.string(user), frames.string(cwd), frames.strings(argv), frames.strings(pairs)))
    except UnicodeEncodeError as error:
        raise CommandNotStarted(f"{shown} cannot be started: it is no text in UTF-8: {error}", "EILSEQ") from error
    if any("\0" in text for text in (user, cwd, *argv, *pairs)):
        raise CommandNotStarted(f"{shown} cannot be started: there is a NUL character in it", "EINVAL")
    if _EXEC.size + len(texts) > frames.MAX_PAYLOAD:
        raise CommandNotStarted(
            f"{shown} cannot be started: with its environment it is {len(texts):,} bytes long; put it into a file, "
            "or send it through standard input",
            "E2BIG",
        )
    head = _EXEC.pack(
        max(1, math.ceil(seconds * 1000)),
        flags,
        max(keep_bytes, 0),
        0 if limits.cpu_seconds is None else min(max(1, math.ceil(limits.cpu_seconds)), _NOT_OUT_OF_BOUNDS),
        limits.memory_bytes or 0,
        limits.file_bytes or 0,
    )
    return Order(shown, head + texts, seconds, max(keep_bytes, 0))


class Run(Channel):
    """The channel of a command that is run to its end; its output is kept up to a bound."""

    __slots__ = ("_allowed", "errors", "output")

    def __init__(self, connection: "Connection", keep_bytes: int) -> None:
        super().__init__(connection)
        connection.expect_end_of(2 * keep_bytes + 4096)
        self.output, self.errors = bytearray(), bytearray()
        self._allowed = keep_bytes

    def take_data(self, side: Side, data: bytes) -> None:
        """Keep the output; more than the supervisor was asked for is an error."""
        kept = self.output if side == "stdout" else self.errors
        kept += data
        if len(kept) > self._allowed:
            raise ValueError(f"{len(kept)} bytes of output where {self._allowed} were to be kept")


async def execute(connection: "Connection", ordered: Order, stdin: bytes) -> Finished:
    """Run a command to its end; if cancelled, return once all its processes are dead.

    Raises:
        CommandNotStarted, SandboxError: as `Sandbox.exec`.
    """
    run = Run(connection, ordered.keep_bytes)
    try:
        connection.post("X", run.number, ordered.payload)
        if stdin:
            with anyio.move_on_after(ordered.seconds + GRACE_SECONDS):
                await run.feed(stdin)
                run.feed_eof()
        end = await run.finish(ordered.seconds + GRACE_SECONDS)
        return await finished(connection, end, bytes(run.output), bytes(run.errors))
    except Failure as failure:
        raise not_started(ordered.command, failure) from failure
    except anyio.get_cancelled_exc_class():
        await kill(connection, run)
        raise
    finally:
        connection.forget(run.number)


async def kill(connection: "Connection", channel: Channel) -> None:
    """Kill a command's processes and wait until they are dead, also while being cancelled; bounded in time."""
    if channel.is_over:
        return
    with anyio.CancelScope(shield=True):
        channel.give_up()
        with anyio.move_on_after(KILL_SECONDS):
            while not channel.is_over:
                if isinstance(channel, Streaming) and channel.has_pending:
                    await channel.next_data()  # its end comes behind what nobody reads any more
                else:
                    await channel.change()
        if not channel.is_over:
            await connection.give_up(f"a command was not dead {KILL_SECONDS:g} s after it was to be killed")


async def finished(connection: "Connection", end: bytes, output: bytes = b"", errors: bytes = b"") -> Finished:
    """The result that an `E` frame reports; `output` and `errors` are the beginnings of the streams, received before.

    Raises:
        SandboxError: some processes could not be killed; a `SandboxOverrun` if they used up the sandbox's resources.
    """
    try:
        ended = frames.read_ended(end)
    except ValueError as error:
        raise SandboxError(str(error)) from error
    if ended.flags & frames.UNKILLABLE:
        raise await connection.blamed("processes of a command could not be killed")
    is_stopped = bool(ended.flags & (frames.TIMED_OUT | frames.KILLED))
    status = None if is_stopped else ended.status
    if ended.flags & frames.KEEPER_KILLED and status is not None and status >= 0:
        status = -signal.SIGKILL  # nobody saw how it ended, so it is no success
    return Finished(
        exit_status=status,
        stdout=_output(output, ended.stdout_tail, ended.dropped_stdout),
        stderr=_output(errors, ended.stderr_tail, ended.dropped_stderr),
        timed_out=bool(ended.flags & frames.TIMED_OUT),
        out_of_memory=bool(ended.flags & frames.OUT_OF_MEMORY),
        used_up_its_cpu=bool(ended.flags & frames.CPU_LIMIT),
        seconds=ended.wall_us / 1e6,
        cpu_seconds=ended.cpu_us / 1e6,
        survivors=ended.survivors,
    )


def not_started(command: str, failure: Failure) -> CommandNotStarted:
    """The error for a command that the supervisor could not start."""
    return CommandNotStarted(f"{command} could not be started: {failure}", failure.reason)


def _output(head: bytes, tail: bytes, dropped_bytes: int) -> Output:
    return Output(head, tail, dropped_bytes) if dropped_bytes else Output(head + tail)


def _shown(argv: Sequence[str]) -> str:
    text = " ".join(argv[2:] if list(argv[:2]) == ["/bin/sh", "-c"] else argv)
    return f"the command {text if len(text) <= 200 else text[:197] + '…'!r}"
