"""Creates, starts and fills one container, and removes it again."""

import io
import itertools
import logging
import tarfile
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.sandbox import Sandbox, SandboxFileError, SandboxRef, SandboxSpec, Snapshot
from rollouthub_sandboxes.docker import container, engine_exec
from rollouthub_sandboxes.docker.container_exit import ContainerStream
from rollouthub_sandboxes.docker.container_layout import Image, Layout
from rollouthub_sandboxes.docker.container_shell import way_in
from rollouthub_sandboxes.docker.folder_archive import unpack
from rollouthub_sandboxes.docker.image_paths import remove_leftovers
from rollouthub_sandboxes.docker.snapshot import DockerSnapshot, take_snapshot
from rollouthub_sandboxes.docker.supervisor_volume import supervisor_volume
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.attach_stream import attach
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import labels, this_process
from rollouthub_sandboxes.supervisor.client import Connection, supervise
from rollouthub_sandboxes.supervisor.sandbox import SupervisedSandbox, Surroundings

WARM_SECONDS = 1800.0
"""How long a started container may wait in the warm pool to be used."""
GRACE_SECONDS = 600.0
"""Seconds after a container's time to live before a sweep treats it as left over."""
REMOVE_SECONDS = 60.0
LOOK_SECONDS = 0.05
_NOT_FOUND, _BEING_REMOVED = 404, 409
CLOSED = "the sandbox was closed"
_OF_FILES = (
    "unable to find user", "unable to find groups", "is a directory", "not a directory", "too many levels of symbolic",
    "chdir to cwd", "outside of rootfs",
)  # fmt: skip
"""Parts of the engine's errors about files that keep a container from starting."""
_CANNOT_RUN = ("exec format error", "exec user process caused")
logger = logging.getLogger(__name__)


class SupervisorCannotRun(SandboxError):
    """The engine's machine cannot execute the supervisor's program."""


@dataclass(frozen=True)
class Recipe:
    """All that is needed to create one container; recipes are equal when their keys are."""

    key: str
    spec: SandboxSpec = field(compare=False)
    image: Image = field(compare=False)
    plan: Layout = field(compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)
    """Remarks on the image for the rollout's record, such as a base that was replaced."""
    seed: bytes = field(default=b"", compare=False, repr=False)
    """Archive of the image's own files in the folders that are kept in memory."""
    snapshot: DockerSnapshot | None = field(default=None, compare=False)


@dataclass(eq=False)
class Box:
    """A started container with its sandbox and its connection."""

    name: str
    recipe: Recipe
    sandbox: Sandbox
    stream: ContainerStream
    connection: Connection | None
    """The connection to the supervisor; None where the engine's own exec is used instead."""

    @property
    def most_root_bytes(self) -> int | None:
        """Bytes that may be written to its root, where the engine has no quota and the hub measures; else None."""
        is_measured = container.NO_QUOTA in self.sandbox.ref.limitations
        return self.recipe.spec.resources.disk_bytes if is_measured else None

    def close(self) -> None:
        """Make all further use of the sandbox fail; the pool ends the container in the background."""
        if self.connection is not None:
            self.connection.break_off(CLOSED)
        elif isinstance(self.sandbox, engine_exec.EngineExecSandbox):
            self.sandbox.break_off(CLOSED)

    def live_for(self, seconds: float) -> None:
        """Have the supervisor end the container after `seconds`, whatever becomes of the hub."""
        if self.connection is not None:
            self.connection.live_for(seconds)


class Maker:
    """Creates containers on one engine, all with the labels of one run."""

    def __init__(self, engine: Engine, run: str, payload: bytes | None, has_quota: bool) -> None:
        self._engine, self.run = engine, run
        self._payload, self._has_quota = payload, has_quota
        self._volume: str | None = None
        self._volume_lock = anyio.Lock()
        self._numbers = itertools.count(1)
        self.live: dict[str, Box] = {}
        """The started containers by name."""
        self.names: set[str] = set()
        """Names of all containers that are live, being created or being removed."""
        self._discarded: set[str] = set()
        """Images of discarded snapshots that are still in use by a container."""

    def look_anew(self) -> None:
        """Forget the supervisor's volume, as the engine may have lost it while it was away."""
        self._volume = None

    @asynccontextmanager
    async def make(self, recipe: Recipe) -> AsyncGenerator[Box]:
        """A started container; it is removed with its anonymous volumes on exit, or when anything fails.

        Raises:
            ConfigError: the engine cannot set up the isolation.
            SandboxFileError: the files of the snapshot keep it from starting, or cannot be put into it.
            SandboxError: it could not be created or started.
        """
        async with AsyncExitStack() as stack:
            box = await self._enter(stack, recipe)
            self.live[box.name] = box
            try:
                yield box
            finally:
                del self.live[box.name]

    async def _enter(self, stack: AsyncExitStack, recipe: Recipe) -> Box:
        if self._payload is not None:
            try:
                return await stack.enter_async_context(self._supervised(recipe, self._payload))
            except SupervisorCannotRun as error:
                self._payload = None
                logger.warning("%s; commands run through the engine's own exec, which is slower and weaker", error)
        return await stack.enter_async_context(self._bare(recipe))

    @asynccontextmanager
    async def _supervised(self, recipe: Recipe, payload: bytes) -> AsyncGenerator[Box]:
        engine, plan = self._engine, recipe.plan
        async with self._volume_lock:
            volume = self._volume = self._volume or await supervisor_volume(engine, recipe.image, payload)
        async with self._created(recipe, volume) as (name, id, ref):
            stream = ContainerStream(engine, id, recipe.spec.resources, await attach(engine, id))
            try:
                await _start(engine, id, recipe)
            except BaseException:
                await stream.aclose()
                raise
            async with _greeted(engine, stream) as connection:
                connection.live_for(recipe.spec.ttl_seconds + WARM_SECONDS)

                async def snapshot(sandbox: Sandbox) -> Snapshot:
                    return await self._snapshot(recipe, id, sandbox)

                sandbox = SupervisedSandbox(
                    connection,
                    id=name,
                    ref=ref,
                    surroundings=Surroundings(plan.workdir, {}, plan.command_user),
                    take_snapshot=snapshot,
                    way_in=lambda: way_in(engine, name, plan),
                )
                await self._fill(recipe, sandbox)
                yield Box(name, recipe, sandbox, stream, connection)

    @asynccontextmanager
    async def _bare(self, recipe: Recipe) -> AsyncGenerator[Box]:
        async with self._created(recipe, None) as (name, id, ref):
            stream = ContainerStream(self._engine, id, recipe.spec.resources, await attach(self._engine, id))
            try:
                await _start(self._engine, id, recipe)
                async with engine_exec.watch(self._engine, id, name, ref, recipe.plan, stream) as sandbox:
                    await self._fill(recipe, sandbox)
                    yield Box(name, recipe, sandbox, stream, None)
            finally:
                await stream.aclose()

    @asynccontextmanager
    async def _created(self, recipe: Recipe, volume: str | None) -> AsyncGenerator[tuple[str, str, SandboxRef]]:
        """A created container: its name, its id, and the isolation that the engine reports for it."""
        engine = self._engine
        name = f"rollouthub-{self.run}-{next(self._numbers)}"
        self.names.add(name)
        try:
            id = await self._create(recipe, volume, name)
            if recipe.plan.opened and recipe.snapshot is None:
                await engine.call_again(engine.api.put_archive, id, "/", _folders(recipe.plan.opened))
            inspected = await engine.call_again(engine.api.inspect_container, id)
            runner = "engine-exec" if volume is None else "supervisor"
            ref = container.in_force(engine, recipe.spec, recipe.image, recipe.plan, inspected, runner)
            more = recipe.notes + (engine_exec.LIMITATIONS if volume is None else ())
            yield name, id, ref.model_copy(update={"limitations": ref.limitations + more}) if more else ref
        finally:
            with anyio.move_on_after(REMOVE_SECONDS, shield=True):
                await remove(engine, name)
            self.names.discard(name)
            if recipe.snapshot is not None:
                await recipe.snapshot.free()

    async def _create(self, recipe: Recipe, volume: str | None, name: str) -> str:
        deadline = time.time() + recipe.spec.ttl_seconds + WARM_SECONDS + GRACE_SECONDS
        config: Json = container.arguments(
            recipe.spec,
            recipe.image,
            recipe.plan,
            labels=labels(this_process(), self.run, deadline),
            volume=volume,
            has_quota=self._has_quota,
        )
        if volume is None:
            config |= engine_exec.FIRST_PROCESS
        if recipe.snapshot is not None and recipe.snapshot.image is not None:
            config["Image"] = recipe.snapshot.image
        engine = self._engine
        try:
            return (await engine.call(engine.api.create_container_from_config, config, name))["Id"]
        except EngineError as error:
            if self._has_quota and "quota" in str(error):
                self._has_quota = False
                return await self._create(recipe, volume, name)
            _blame_files(recipe, error)
            if error.status == 400:
                raise ConfigError(f"a sandbox of {recipe.spec.image or 'the base image'}: {error}") from error
            raise

    async def _fill(self, recipe: Recipe, sandbox: Sandbox) -> None:
        user = "root" if recipe.plan.has_writable_root else None
        if recipe.snapshot is None:
            try:
                await unpack(sandbox, recipe.seed)
            except SandboxFileError as error:
                raise SandboxError(str(error)) from error
        else:
            await remove_leftovers(sandbox, recipe.snapshot.leftovers)
            await unpack(sandbox, recipe.snapshot.archive, user=user)

    async def _snapshot(self, recipe: Recipe, id: str, sandbox: Sandbox) -> DockerSnapshot:
        return await take_snapshot(
            self._engine,
            id,
            sandbox,
            recipe.image,
            recipe.plan,
            recipe.seed,
            run=self.run,
            ttl_seconds=recipe.spec.ttl_seconds,
            most_bytes=recipe.spec.resources.disk_bytes,
            discarded=self._discarded,
        )


async def remove(engine: Engine, name: str) -> None:
    """Remove a container with its anonymous volumes, running or not, and wait until it is gone; failures are logged."""
    try:
        await engine.call_again(engine.api.remove_container, name, v=True, force=True)
    except EngineError as error:
        if error.status == _BEING_REMOVED:  # by the engine itself, as its first process ended
            await _gone(engine, name)
        elif error.status != _NOT_FOUND:
            logger.warning("the container %s could not be removed, a later sweep will: %s", name, error)


async def _gone(engine: Engine, name: str) -> None:
    with anyio.move_on_after(REMOVE_SECONDS / 2):
        while True:
            try:
                await engine.call_again(engine.api.inspect_container, name)
            except EngineError:
                return
            await anyio.sleep(LOOK_SECONDS)
    logger.warning("the container %s is still being removed by %s", name, engine.name)


async def _start(engine: Engine, id: str, recipe: Recipe) -> None:
    try:
        await engine.call(engine.api.start, id)
    except EngineError as error:
        _blame_files(recipe, error)
        if recipe.spec.resources.gpus and "capabilities: [[gpu]]" in str(error):
            raise ConfigError(f"a sandbox asks for {recipe.spec.resources.gpus} GPUs: {error}") from error
        if _tells_that_it_cannot_run(error):
            raise _cannot_run(engine, error) from error
        raise


def _blame_files(recipe: Recipe, error: EngineError) -> None:
    """Raise an error about the files of the recipe's snapshot, if they are what the engine's error is about."""
    if recipe.snapshot is not None and any(words in str(error) for words in _OF_FILES):
        message = f"no container starts from the files of a snapshot: {error}"
        raise SandboxFileError(message, "ENOEXEC") from error


@asynccontextmanager
async def _greeted(engine: Engine, stream: ContainerStream) -> AsyncGenerator[Connection]:
    """A connection to a supervisor that has answered; some engines report only here that its program cannot run."""
    is_up = False
    try:
        async with supervise(stream, blamed=stream.blamed) as connection:
            is_up = True
            yield connection
    except SandboxError as error:
        if not is_up and _tells_that_it_cannot_run(error):
            raise _cannot_run(engine, error) from error
        raise


def _tells_that_it_cannot_run(error: SandboxError) -> bool:
    return any(sign in str(error) for sign in _CANNOT_RUN)


def _cannot_run(engine: Engine, error: SandboxError) -> SupervisorCannotRun:
    return SupervisorCannotRun(f"the supervisor's program does not run on {engine.name}: {error}")


def _folders(paths: tuple[str, ...]) -> bytes:
    """A tar archive, to be unpacked at the root, of empty folders that everybody may write to."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        for path in paths:
            entry = tarfile.TarInfo(path.lstrip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            archive.addfile(entry)
    return target.getvalue()
