"""`ProcessProvider`: sandboxes made of processes of this machine, with the best isolation that works here."""

import logging
import platform
import secrets
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
from anyio import to_thread

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.sandbox import Sandbox, SandboxRef, SandboxSpec, Snapshot
from rollouthub_sandboxes.process.hub_folder import own_folder, sweep_folders
from rollouthub_sandboxes.process.process_isolation import (
    BareLimits,
    Cell,
    Kind,
    Namespaces,
    Walls,
    check_folders,
    missing_tools,
)
from rollouthub_sandboxes.process.process_shell import way_in
from rollouthub_sandboxes.process.sandbox_processes import StartedCell
from rollouthub_sandboxes.process.snapshot import FileSnapshot, take_snapshot
from rollouthub_sandboxes.supervisor.client import supervise
from rollouthub_sandboxes.supervisor.payload import payload_path
from rollouthub_sandboxes.supervisor.sandbox import SupervisedSandbox

logger = logging.getLogger(__name__)

NAME = "process"
OWN_USER = "its own"
"""The user on the record where every sandbox has a user id of its own."""
KINDS: tuple[Kind, ...] = ("namespaces", "limits")
"""Kinds of isolation, the better one first."""


class ProcessProvider:
    """Makes sandboxes of processes; the kind of isolation is chosen for the first sandbox, by trying each."""

    name = NAME

    def __init__(self, tasks: anyio.abc.TaskGroup, folder: Path, kinds: Sequence[Kind] = KINDS) -> None:
        self._tasks, self._folder, self._kinds = tasks, folder, kinds
        self._walls: Walls | None = None
        self._choosing = anyio.Lock()
        self._supervisor = folder / "supervisor"

    async def prepare(self, spec: SandboxSpec) -> None:
        """Choose the isolation, and refuse a spec that it cannot meet.

        Raises:
            ConfigError: the spec asks for what only a container has.
            SandboxError: no kind of isolation works here.
        """
        _refuse(spec)
        walls = await self._chosen()
        if walls.kind == "limits":
            with tempfile.TemporaryDirectory(dir=self._folder) as folder:
                walls.cell(spec, self._supervisor, Path(folder))

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AsyncGenerator[Sandbox]:
        """A fresh sandbox; its processes and files are removed soon after the context ends.

        Raises:
            ConfigError, SandboxError: as `prepare`.
        """
        _refuse(spec)
        if snapshot is not None and not isinstance(snapshot, FileSnapshot):
            raise ConfigError(f"snapshot {snapshot.id!r} is not one of the provider {NAME!r}")
        walls = await self._chosen()
        async with self._opened(walls, spec, snapshot) as sandbox:
            yield sandbox

    @asynccontextmanager
    async def _opened(
        self, walls: Walls, spec: SandboxSpec, snapshot: FileSnapshot | None = None
    ) -> AsyncGenerator[SupervisedSandbox]:
        name = f"process-{secrets.token_hex(6)}"
        folder = self._folder / name
        folder.mkdir(mode=0o700)
        cell = walls.cell(spec, self._supervisor, folder)
        try:
            started = StartedCell(cell, folder)
        except OSError as error:
            raise SandboxError(f"a sandbox's process could not be started: {error}") from error
        has_come_up = False
        try:
            async with supervise(started.stream) as connection:
                has_come_up = True
                connection.live_for(spec.ttl_seconds)

                async def keep(sandbox: SupervisedSandbox) -> Snapshot:
                    return await take_snapshot(sandbox, cell.folders)

                sandbox = SupervisedSandbox(
                    connection,
                    id=name,
                    ref=_ref(walls, spec, cell),
                    surroundings=cell.surroundings,
                    take_snapshot=keep,
                    way_in=lambda: way_in(walls.kind, cell, started.pid),
                )
                if snapshot is not None:
                    await snapshot.restore(sandbox, cell.folders)
                yield sandbox
        except SandboxError as error:
            if not has_come_up and (said := started.last_words()):
                raise SandboxError(f"{error}; it said: {said}") from error
            raise
        finally:
            self._tasks.start_soon(started.end)

    async def _chosen(self) -> Walls:
        async with self._choosing:
            if self._walls is None:
                await to_thread.run_sync(self._copy_supervisor)
                self._walls = await self._first_that_works()
                told = "; ".join(self._walls.limitations)
                logger.warning(
                    "programs run in process sandboxes (%s), which hold less than containers: `hub doctor`",
                    self._walls.kind,
                )
                logger.info("process sandboxes (walls: %s) do not hold everything: %s", self._walls.kind, told)
            return self._walls

    async def _first_that_works(self) -> Walls:
        reasons: list[str] = []
        for kind in self._kinds:
            walls: Walls = Namespaces() if kind == "namespaces" else BareLimits()
            if missing := missing_tools(kind):
                reasons.append(f"{kind}: {' and '.join(missing)} cannot be found; install bubblewrap and util-linux")
                continue
            try:
                async with self._opened(walls, SandboxSpec()) as sandbox:
                    done = await sandbox.exec("echo $((6 * 7))", timeout_seconds=10)
                if done.stdout.head == b"42\n":
                    return walls
                reasons.append(f"{kind}: a first command ended with {done.exit_status}: {done.stderr.text}")
            except SandboxError as error:
                reasons.append(f"{kind}: {error}")
            logger.debug("sandboxes behind walls of the kind %r cannot be had: %s", kind, reasons[-1])
        raise SandboxError(f"no process sandbox can be had here ({'; '.join(reasons)})", retryable=False)

    def _copy_supervisor(self) -> None:
        """Copy the supervisor to a folder where every user can execute it, as the hub may be installed in a private
        home.
        """
        self._supervisor.write_bytes(payload_path(platform.machine()).read_bytes())
        self._supervisor.chmod(0o755)


@asynccontextmanager
async def process_provider(kinds: Sequence[Kind] = KINDS) -> AsyncGenerator[ProcessProvider]:
    """A provider of process sandboxes, with the first kind of isolation in `kinds` that works here.

    Raises:
        ConfigError: this is not Linux.
    """
    if not sys.platform.startswith("linux"):
        raise ConfigError(f"the provider {NAME!r} needs Linux; use --set sandbox=docker")
    failure: Exception | None = None
    await to_thread.run_sync(sweep_folders)
    with own_folder() as folder:
        async with anyio.create_task_group() as tasks:
            try:
                yield ProcessProvider(tasks, folder, kinds)
            except Exception as error:
                failure = error  # raised below, as the group would wrap it
        if failure is not None:
            raise failure


def _ref(walls: Walls, spec: SandboxSpec, cell: Cell) -> SandboxRef:
    return SandboxRef(
        provider=NAME,
        walls=walls.kind,
        profile=spec.profile,
        network=walls.network,
        user=cell.user if cell.uid is None else OWN_USER,
        resources=spec.resources,
        limitations=walls.limitations,
    )


def _refuse(spec: SandboxSpec) -> None:
    """Refuse a spec that asks for something only a container has.

    Raises:
        ConfigError: the spec asks for an image, a network or the like.
    """
    asked = {
        f"the image {str(spec.image)!r}": spec.image is not None,
        f"network={spec.network!r}": spec.network != "none",
        f"the profile {spec.profile!r}": spec.profile != "hardened",
        f"the user {spec.user!r}": spec.user not in (None, "nobody"),
        "a writable root": spec.has_writable_root,
        "names of its own": bool(spec.loopback_names),
        "a network of another sandbox": spec.beside is not None,
        "GPUs": spec.resources.gpus > 0,
    }
    for what, is_asked in asked.items():
        if is_asked:
            raise ConfigError(f"the provider {NAME!r} does not have {what}; use --set sandbox=docker (needs an engine)")
    check_folders(spec)
