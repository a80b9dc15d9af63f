"""A sandbox without a supervisor, for engines whose machine cannot run it: slower and weaker, as its record says."""

import logging
import posixpath
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress

import anyio

from rollouthub.errors import NotOffered, SandboxError, SandboxOverrun, said
from rollouthub.event_loop import background_tasks
from rollouthub.sandbox import (
    FILE_BYTES,
    MOST_SECONDS,
    OUTPUT_BYTES,
    TIMEOUT_SECONDS,
    ByteStream,
    Command,
    CommandLimits,
    CommandNotStarted,
    Connector,
    Container,
    File,
    FileEntry,
    Finished,
    Program,
    SandboxFileError,
    SandboxRef,
    Snapshot,
)
from rollouthub_sandboxes.docker import engine_files
from rollouthub_sandboxes.docker.container_exit import ContainerStream
from rollouthub_sandboxes.docker.container_layout import Layout
from rollouthub_sandboxes.docker.container_shell import way_in
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.engine_program import EngineCommand, EngineProgram, worded
from rollouthub_sandboxes.supervisor.channel import again

FIRST_PROCESS: Json = {"Entrypoint": ["/bin/sh", "-c", "exec cat >/dev/null"], "Cmd": []}
"""The first process without a supervisor: it ends with its input, so with the hub, and takes the container with it."""
LIMITATIONS = (
    "commands run through the engine's exec: one that is stopped at its deadline ends the whole sandbox",
    "a command killed for want of memory is not told from one killed otherwise, and CPU time is not measured",
    "no time to live of its own; no snapshots; no forwarded ports",
)
KILL_SECONDS = 20.0
STOP_TRIES, SETTLE_SECONDS = 3, 1.0
_KILLED = 137
_COUNT = """
count=0
for folder in /proc/[0-9]*; do
  case ${folder#/proc/} in 1|$$) continue;; esac
  read -r line 2>/dev/null <"$folder/stat" || continue
  case ${line##*) } in Z*|X*) ;; *) count=$((count+1));; esac
done
echo $count
"""
"""Counts living processes except the first one and the counting shell; zombies, which are not reaped here, do not
count.
"""
NO_LIMITS = CommandLimits()
logger = logging.getLogger(__name__)


@asynccontextmanager
async def watch(
    engine: Engine, container: str, name: str, ref: SandboxRef, plan: Layout, stream: ContainerStream
) -> AsyncGenerator["EngineExecSandbox"]:
    """A sandbox over a started container; it notices when the container ends."""
    async with background_tasks() as tasks:
        sandbox = EngineExecSandbox(engine, container, name, ref, plan, stream)
        tasks.start_soon(sandbox.read)
        yield sandbox


class EngineExecSandbox:
    """The `Sandbox` protocol over the engine's own exec; needs `sh`, `cat`, `head` and `tar` in the image."""

    def __init__(
        self, engine: Engine, container: str, name: str, ref: SandboxRef, plan: Layout, stream: ContainerStream
    ) -> None:
        self._engine, self._container, self._name, self._ref = engine, container, name, ref
        self._plan, self._stream = plan, stream
        self._broken: SandboxError | None = None
        self._ended = anyio.Event()

    @property
    def id(self) -> str:
        """The container's name."""
        return self._name

    @property
    def ref(self) -> SandboxRef:
        """The provider, image, user and limits really in force, for the record."""
        return self._ref

    @property
    def workdir(self) -> str:
        """The folder that commands start in."""
        return self._plan.workdir

    @property
    def is_alive(self) -> bool:
        """False once its container has ended."""
        return self._broken is None

    def way_in(self) -> Container:
        """What a person needs to open a shell in the container."""
        return way_in(self._engine, self._name, self._plan)

    def break_off(self, reason: str) -> None:
        """Let every later call fail with this reason."""
        self._broken = self._broken or SandboxError(reason)

    async def read(self) -> None:
        """Read the container's stream until it ends, and record why."""
        try:
            while await self._stream.receive():
                pass
            reason = SandboxError("the sandbox is gone: its connection was closed")
        except SandboxError as error:
            reason = error
        except OSError as error:
            reason = SandboxError(f"the sandbox is gone: {said(error)}")
        self._broken = self._broken or reason
        self._ended.set()

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
        """Run a command to its end; a command past its deadline ends the whole sandbox, since `kill` could miss
        processes.
        """
        program = await self._start(self._command(command, cwd, environment, user, limits))
        seconds = min(timeout_seconds, MOST_SECONDS)
        try:
            with anyio.fail_after(seconds):
                done = await self._run(program, stdin, output_bytes)
        except TimeoutError as error:
            raise await self._end(f"a command ran for more than {seconds:g} s", SandboxOverrun) from error
        except anyio.get_cancelled_exc_class():
            await self._end("a command was given up", SandboxOverrun)
            raise
        finally:
            await program.aclose()
        if not keeps_background:
            await self.stop()
        return done

    @asynccontextmanager
    async def _running(self, program_of: EngineCommand, seconds: float | None) -> AsyncGenerator[Program]:
        program = await self._start(program_of)
        is_over = False
        try:
            with anyio.fail_after(MOST_SECONDS if seconds is None else min(seconds, MOST_SECONDS)):
                yield _Streamed(program, self)
            is_over = program.has_ended
        except TimeoutError as error:
            raise await self._end("a command ran past its deadline", SandboxOverrun) from error
        finally:
            with anyio.CancelScope(shield=True):
                await program.aclose()
                if not is_over and self._broken is None:
                    with suppress(SandboxError):  # it is broken, which every later call tells
                        await self.stop()

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
        """Run a command in the background; leaving the context early kills every command of the sandbox."""
        return self._running(self._command(command, cwd, environment, user, limits), timeout_seconds)

    async def read_file(self, path: str, *, max_bytes: int = FILE_BYTES, follows_links: bool = True) -> bytes:
        """The bytes of a regular file."""
        return await engine_files.read_file(self, self._at(path), max_bytes, follows_links)

    async def write_file(self, path: str, data: bytes, *, mode: int = 0o644, user: str | None = None) -> None:
        """Write a whole file."""
        await engine_files.write_file(self, self._at(path), data, mode, user)

    async def list_files(self, path: str, *, recursive: bool = False, max_entries: int = 10_000) -> list[FileEntry]:
        """List the entries of a folder; with `recursive`, those of its subfolders, too."""
        return await engine_files.list_files(self, self._at(path), recursive, max_entries)

    async def collect(self, paths: Sequence[str], *, max_bytes: int = FILE_BYTES) -> list[File]:
        """The regular files at or below absolute paths."""
        return await engine_files.collect(self, paths, max_bytes)

    async def place(self, files: Iterable[File], below: str = "/", *, user: str | None = None) -> None:
        """Write files below a folder."""
        for file in files:
            if file.path.startswith("/") or ".." in file.path.split("/"):
                raise SandboxFileError(f"the file {file.path!r} has a path that leaves {below!r}", "EINVAL")
            await self.write_file(posixpath.join(self._at(below), file.path), file.data, mode=file.mode, user=user)

    async def stop(self) -> int:
        """Kill every process but the first, wait until they are gone, and return how many there were."""
        before = left = await self._processes()
        for _ in range(STOP_TRIES):
            if left == 0:
                return before
            for user in ("", "0") if self._plan.has_writable_root else ("",):
                await self._shell("kill -9 -1", user)
            left = await self._processes()
        if left == 0:
            return before
        raise await self._end(f"{left} processes could not be stopped")

    async def forward(self, port: int, connect: Connector) -> None:
        """Not supported: always raises `NotOffered`."""
        raise NotOffered("ports cannot be forwarded into a sandbox that runs through the engine's exec")

    async def connect(self, port: int) -> ByteStream:
        """Not supported: always raises `NotOffered`."""
        raise NotOffered("no port of a sandbox that runs through the engine's exec can be connected to")

    async def snapshot(self) -> Snapshot:
        """Not supported: always raises `NotOffered`."""
        raise NotOffered("no snapshots are taken of a sandbox that runs through the engine's exec")

    async def _processes(self) -> int:
        said = (await self._shell(_COUNT, "")).stdout.text.strip()
        if not said.isdecimal():
            raise await self._end("its processes could not be counted")
        return int(said)

    async def _shell(self, script: str, user: str) -> Finished:
        """Run a short script of the hub's own as `user`."""
        program = await self._start(EngineCommand(["/bin/sh", "-c", script], "/", {}, user))
        try:
            with anyio.fail_after(KILL_SECONDS):
                return await self._run(program, b"", 1000)
        except TimeoutError as error:
            raise await self._end(f"it did not answer within {KILL_SECONDS:g} s") from error
        finally:
            await program.aclose()

    def _command(
        self,
        command: Command,
        cwd: str | None,
        environment: Mapping[str, str] | None,
        user: str | None,
        limits: CommandLimits,
    ) -> EngineCommand:
        who = self._plan.command_user if user is None else user
        return EngineCommand(worded(command, limits), self._at(cwd or ""), dict(environment or {}), who)

    async def _start(self, command: EngineCommand) -> EngineProgram:
        if self._broken is not None:
            raise again(self._broken)
        try:
            return await EngineProgram.begin(self._engine, self._container, command)
        except (EngineError, CommandNotStarted) as error:
            await self.rule_out_its_end(error)
            raise

    async def _run(self, program: EngineProgram, stdin: bytes, output_bytes: int) -> Finished:
        try:
            done = await program.run(stdin, output_bytes)
        except (EngineError, CommandNotStarted) as error:
            await self.rule_out_its_end(error)
            raise
        if done.exit_status == _KILLED:
            await self.rule_out_its_end(SandboxError("its container was killed"))
        return done

    async def rule_out_its_end(self, error: Exception) -> None:
        """Raise an error that says the sandbox is gone if that is why `error` came up; the engine words it in many
        ways.

        Raises:
            SandboxError: the container has ended, or is ending.
        """
        with anyio.move_on_after(SETTLE_SECONDS):  # its commands are dead before it is
            await self._ended.wait()
        if self._ended.is_set() or not await self._is_running():
            raise await self._gone(error) from error

    async def _is_running(self) -> bool:
        try:
            found = await self._engine.call_again(self._engine.api.inspect_container, self._container)
        except EngineError:
            return False
        return bool(found["State"]["Running"])

    async def _gone(self, what: object) -> SandboxError:
        """The error for a container that has ended: the reason its stream gave, else `what`."""
        with anyio.move_on_after(KILL_SECONDS):
            await self._ended.wait()
        return again(self._broken or SandboxError(f"the sandbox is gone: {what}"))

    async def _end(self, why: str, kind: type[SandboxOverrun] | None = None) -> SandboxError:
        """Kill the whole container and wait until it is dead; without `kind`, the engine is asked whether limits
        were reached.
        """
        why = f"the sandbox was ended: {why}, and the engine's exec cannot end it alone"
        self._broken = kind(why) if kind is not None else await self._stream.blamed(why)
        self._stream.ended = self._broken
        with anyio.move_on_after(KILL_SECONDS, shield=True):
            try:
                await self._engine.call_again(self._engine.api.kill, self._container)
            except EngineError as error:
                logger.debug("what is being ended may have ended already: %s", error)
            await self._ended.wait()
        return again(self._broken)

    def _at(self, path: str) -> str:
        return posixpath.join(self._plan.workdir, path)


class _Streamed:
    """A running program; killing it kills every command of its sandbox."""

    def __init__(self, program: EngineProgram, sandbox: EngineExecSandbox) -> None:
        self._program, self._sandbox = program, sandbox
        self.send, self.send_eof, self.output = program.send, program.send_eof, program.output

    async def wait(self) -> Finished:
        """Wait for the program's end; return its exit status and times."""
        try:
            done = await self._program.wait()
        except (EngineError, CommandNotStarted) as error:
            await self._sandbox.rule_out_its_end(error)
            raise
        if done.exit_status == _KILLED:
            await self._sandbox.rule_out_its_end(SandboxError("its container was killed"))
        return done

    async def kill(self, signal: int | None = None) -> None:
        """Kill the program, and every other command of the sandbox, since the engine cannot tell them apart."""
        if signal is not None:
            raise NotOffered(f"signal {signal} cannot be sent through the engine's exec")
        await self._sandbox.stop()
