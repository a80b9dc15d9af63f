"""`sandbox=none`: runs the program on this machine in its own folder, without isolation, and kills its process tree."""

import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio import to_thread

from rollouthub.errors import SandboxError
from rollouthub.processes import guarded
from rollouthub.protocols import SeatAddress
from rollouthub.sandbox import CommandNotStarted, File, Finished, Output
from rollouthub.store.folders import remove_folder

END_SECONDS = 15.0
"""Seconds for a killed process tree to end; a little more than its guard takes at most."""
LAST_WORDS_SECONDS = 1.0


class HostPlaces:
    """Opens a folder on this machine for each episode."""

    def __init__(self, output_bytes: int) -> None:
        self._output_bytes = output_bytes

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["HostPlace"]:
        """Create a temporary folder; it is removed with its content when the context ends."""
        folder = await to_thread.run_sync(lambda: tempfile.mkdtemp(prefix="rollouthub-agent-"))
        try:
            yield HostPlace(folder, self._output_bytes)
        finally:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(remove_folder, folder)


class HostPlace:
    """A folder on this machine that is both HOME and the program's working folder."""

    sandbox = None

    def __init__(self, folder: str, output_bytes: int) -> None:
        self.home = self.workdir = folder
        self._output_bytes = output_bytes

    async def write(self, files: Sequence[File], below: str) -> None:
        """Write files below a folder."""
        await to_thread.run_sync(_write, files, Path(below))

    async def reach(self, address: SeatAddress) -> SeatAddress:
        """Return the URLs unchanged, since a program on this machine reaches them directly."""
        return address

    async def run(self, command: Sequence[str], environment: Mapping[str, str], seconds: float | None) -> Finished:
        """Run a program to its end under a guard, which then ends all processes that the program started.

        Raises:
            CommandNotStarted: there is no such program.
        """
        surroundings = {"PATH": os.environ.get("PATH", os.defpath), **environment}
        name = command[0]
        program = shutil.which(str(Path(self.workdir, name)) if "/" in name else name, path=surroundings["PATH"])
        if program is None:
            raise CommandNotStarted(f"there is no program {name!r}", "ENOENT")
        started = anyio.current_time()
        with self._started(guarded([program, *command[1:]]), surroundings) as process:
            stdout, stderr, is_in_time = await self._attend(process, seconds)
        return Finished(
            exit_status=process.returncode if is_in_time else None,
            stdout=stdout.output(),
            stderr=stderr.output(),
            timed_out=not is_in_time,
            seconds=anyio.current_time() - started,
        )

    def _started(self, command: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
        """Start the process from the event loop's thread, since the kernel may end it together with its thread."""
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.workdir,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            name = errno.errorcode.get(error.errno or 0, "")
            raise CommandNotStarted(f"the program could not be started: {error.strerror}", name) from error

    async def _attend(self, process: "subprocess.Popen[bytes]", seconds: float | None) -> tuple["_Kept", "_Kept", bool]:
        """Collect a program's output until it ends or `seconds` have passed; the flag is whether it ended in time."""
        assert process.stdout is not None
        assert process.stderr is not None
        stdout, stderr = _Kept(self._output_bytes), _Kept(self._output_bytes)
        pidfd = os.pidfd_open(process.pid)
        patience = anyio.CancelScope() if seconds is None else anyio.move_on_after(seconds)
        try:
            async with anyio.create_task_group() as readers:
                readers.start_soon(_keep, process.stdout.fileno(), stdout)
                readers.start_soon(_keep, process.stderr.fileno(), stderr)
                try:
                    with patience:
                        await anyio.wait_readable(pidfd)
                finally:
                    await _end(process, pidfd)
                # Nobody is left to write, but a program that got away from its guard.
                readers.cancel_scope.deadline = anyio.current_time() + LAST_WORDS_SECONDS
        finally:
            os.close(pidfd)
        return stdout, stderr, not patience.cancelled_caught


async def _end(process: "subprocess.Popen[bytes]", pidfd: int) -> None:
    """End a guard with all processes below it.

    Raises:
        SandboxError: they did not end in time.
    """
    assert process.stdin is not None
    process.stdin.close()
    patience = anyio.move_on_after(END_SECONDS)
    with anyio.CancelScope(shield=True):
        with patience:
            await anyio.wait_readable(pidfd)
        if patience.cancelled_caught:
            process.kill()
            await anyio.wait_readable(pidfd)
    process.wait()
    if patience.cancelled_caught:
        raise SandboxError(f"a program's processes were not gone after {END_SECONDS:g} s")


async def _keep(pipe: int, kept: "_Kept") -> None:
    """Read a pipe to its end."""
    while True:
        await anyio.wait_readable(pipe)
        data = os.read(pipe, 65_536)
        if not data:
            return
        kept.add(data)


class _Kept:
    """Collects the first and last bytes of an output."""

    def __init__(self, most: int) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self._of_tail = most // 2
        self._of_head = most - self._of_tail
        self._total = 0

    def add(self, data: bytes) -> None:
        """Add output."""
        self._total += len(data)
        room = self._of_head - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > self._of_tail:
            del self._tail[: len(self._tail) - self._of_tail]

    def output(self) -> Output:
        """The bytes collected, and the number of bytes dropped between them."""
        dropped = self._total - len(self._head) - len(self._tail)
        if not dropped:
            return Output(bytes(self._head + self._tail))
        return Output(bytes(self._head), bytes(self._tail), dropped)


def _write(files: Sequence[File], below: Path) -> None:
    for file in files:
        path = below / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.data)
        path.chmod(file.mode)
