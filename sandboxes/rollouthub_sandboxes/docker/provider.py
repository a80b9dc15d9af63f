"""`docker_provider`: sandboxes in containers of the engine that answers, taken from a warm pool."""

import hashlib
import logging
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio
from anyio import to_thread

from rollouthub.errors import ConfigError, SandboxError
from rollouthub.sandbox import Sandbox, SandboxSpec, Snapshot
from rollouthub_sandboxes.docker.container import check_engine, check_resources
from rollouthub_sandboxes.docker.container_creation import WARM_SECONDS, Box, Maker, Recipe
from rollouthub_sandboxes.docker.container_layout import for_podman, image_facts, layout
from rollouthub_sandboxes.docker.disk_quota import watch_disks
from rollouthub_sandboxes.docker.image_contents import image_seed, looked_into, with_owner
from rollouthub_sandboxes.docker.leftover_containers import remove_strays
from rollouthub_sandboxes.docker.snapshot import DISCARD_SECONDS, check_snapshot, discard_snapshots
from rollouthub_sandboxes.docker.sweep import sweep
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.engine import Engine, EngineError, connect_engine
from rollouthub_sandboxes.engine.engine_wait import Patience
from rollouthub_sandboxes.images import Images
from rollouthub_sandboxes.pool import PoolStatistics, WarmPool
from rollouthub_sandboxes.supervisor.compilation import ARCHITECTURES
from rollouthub_sandboxes.supervisor.payload import payload

MOST_CONTAINERS = 512
WARM_AT_START = 2
"""Containers started ahead for each prepared spec; later, demand decides."""
NOT_FOUND = 404
logger = logging.getLogger(__name__)


class DockerProvider:
    """Sandboxes in containers of one engine."""

    def __init__(self, engine: Engine, info: Json, maker: Maker, pool: WarmPool[Recipe, Box]) -> None:
        self._engine, self._info, self._maker, self._pool = engine, info, maker, pool
        self._images = Images(engine)
        self._patience = Patience(engine, self._on_return)
        self._recipes: dict[str, Recipe] = {}
        self._locks: dict[str, anyio.Lock] = {}

    @property
    def name(self) -> str:
        """`docker`, even where the engine is Podman."""
        return "docker"

    @property
    def engine(self) -> Engine:
        """The engine that runs the containers."""
        return self._engine

    @property
    def run(self) -> str:
        """The value of the label `rollouthub.run` on all its containers."""
        return self._maker.run

    @property
    def statistics(self) -> PoolStatistics:
        """Figures of the warm pool."""
        return self._pool.statistics

    async def prepare(self, spec: SandboxSpec) -> None:
        """Pull or build the image if it is missing, and start the first containers.

        Raises:
            ConfigError: the spec asks for what the engine does not have.
            SandboxError: the image cannot be provided, or no container of it can be started.
        """
        await self._pool.warm(await self._recipe(spec), WARM_AT_START)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AsyncGenerator[Sandbox]:
        """A fresh container; it is ended in the background after exit.

        The image is provided before a place in the pool is taken. An engine that is restarting is waited for.

        Raises:
            ConfigError: the spec asks for what the engine does not have.
            SandboxError: no container can be started.
        """
        async with AsyncExitStack() as stack:
            box = await self._patience.outlast(lambda: self._acquire(stack, spec, snapshot))
            box.live_for(spec.ttl_seconds)
            try:
                yield box.sandbox
            finally:
                box.close()

    async def _acquire(self, stack: AsyncExitStack, spec: SandboxSpec, snapshot: Snapshot | None) -> Box:
        alone = spec if spec.beside is None else spec.model_copy(update={"beside": None})
        recipe = await self._recipe(alone)
        if snapshot is not None:
            recipe = self._from(recipe, snapshot)
        if spec.beside is not None:
            recipe = self._beside(recipe, spec.beside)
        try:
            return await stack.enter_async_context(self._pool.acquire(recipe))
        except EngineError as error:
            if error.status == NOT_FOUND:  # somebody removed the image: the next one looks for it again
                self._recipes.pop(alone.model_dump_json(), None)
                self._images.forget()
            raise

    async def _on_return(self) -> None:
        """After the engine was away: remove containers whose removal failed meanwhile."""
        self._maker.look_anew()
        await remove_strays(self._engine, self.run, self._maker.names)

    async def _recipe(self, spec: SandboxSpec) -> Recipe:
        """The recipe for a spec's containers; computed once, so that a moving tag does not change the image within a
        run.
        """
        wording = spec.model_dump_json()
        lock = self._locks.setdefault(wording, anyio.Lock())
        async with lock:
            if (recipe := self._recipes.get(wording)) is None:
                recipe = self._recipes[wording] = await self._work_out(spec, wording)
        return recipe

    async def _work_out(self, spec: SandboxSpec, wording: str) -> Recipe:
        had = await self._images.ensure(spec.image)
        inspected = await self._engine.call_again(self._engine.api.inspect_image, had.digest)
        image = image_facts(inspected, had.reference)
        check_resources(spec, self._info, self._engine)
        plan = layout(spec, image)
        key = hashlib.sha256(f"{wording}\n{image.id}".encode()).hexdigest()
        seed = b""
        if plan.memory_folders:
            async with looked_into(self._engine, image, self.run) as container:
                plan = await with_owner(self._engine, container, image, plan)
                seed = await image_seed(self._engine, container, image, plan, spec.resources.disk_bytes)
        if self._engine.kind == "podman":
            plan = for_podman(plan)
        return Recipe(key, spec, image, plan, had.notes, seed)

    def _beside(self, recipe: Recipe, sandbox_id: str) -> Recipe:
        """The recipe of a container in the network of another one of this provider's."""
        if sandbox_id not in self._maker.live:
            raise SandboxError(f"no sandbox {sandbox_id!r} is open, so none can be opened beside it")
        if recipe.spec.loopback_names:
            raise ConfigError("a sandbox beside another one has that one's host names; name none for it")
        spec = recipe.spec.model_copy(update={"beside": sandbox_id})
        return replace(recipe, key=f"{recipe.key}+{sandbox_id}", spec=spec)

    def _from(self, recipe: Recipe, snapshot: Snapshot) -> Recipe:
        kept = check_snapshot(snapshot, self._engine)
        if kept.has_writable_root is not recipe.plan.has_writable_root:
            raise SandboxError(
                f"the snapshot {kept.id!r} and the sandbox asked for differ in whether the root can be written to; "
                "open it with the spec it was taken of",
                retryable=False,
            )
        return replace(recipe, key=f"{recipe.key}+{kept.id}", snapshot=kept)


@asynccontextmanager
async def docker_provider() -> AsyncGenerator[DockerProvider]:
    """Connect to the engine, remove what dead hubs left on it, and yield a provider; on exit all its containers are
    removed.

    Raises:
        ConfigError: no engine answers, or docker-py is not installed, or the engine cannot enforce limits.
    """
    async with connect_engine() as engine:
        info = await engine.call_again(engine.api.info)
        check_engine(info, engine)
        await _sweep(engine)
        maker = Maker(engine, secrets.token_hex(6), await _payload(engine), _may_have_quota(info))
        pool = WarmPool[Recipe, Box](
            maker.make,
            is_alive=lambda box: box.sandbox.is_alive,
            most=MOST_CONTAINERS,
            max_age_seconds=WARM_SECONDS,
            describe=lambda recipe: f"a container of {recipe.spec.image or 'the base image'}",
        )
        failure: Exception | None = None
        try:
            async with pool, anyio.create_task_group() as tasks:
                tasks.start_soon(watch_disks, engine, maker.run, maker.live)
                try:
                    yield DockerProvider(engine, info, maker, pool)
                except Exception as error:
                    failure = error  # raised below, as the groups would wrap it
                tasks.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            with anyio.move_on_after(DISCARD_SECONDS, shield=True):
                await remove_strays(engine, maker.run)
                await discard_snapshots(engine, maker.run)


async def _sweep(engine: Engine) -> None:
    try:
        swept = await sweep(engine)
    except EngineError as error:
        logger.warning("what dead hubs left behind could not be looked for: %s", error)
        return
    if swept.containers or swept.images or swept.networks:
        logger.info(
            "removed what dead hubs left behind: %d containers, %d images, %d networks",
            len(swept.containers),
            len(swept.images),
            len(swept.networks),
        )
    for problem in swept.problems:
        logger.warning("something a dead hub left behind is still there: %s", problem)


async def _payload(engine: Engine) -> bytes | None:
    """The supervisor's program for the engine's machine; None where there is none for its architecture."""
    if engine.architecture not in ARCHITECTURES:
        logger.warning(
            "no supervisor is made for %s, the architecture of %s; commands run through the engine's own exec, "
            "which is slower and weaker",
            engine.architecture,
            engine.name,
        )
        return None
    return await to_thread.run_sync(payload, engine.architecture)


def _may_have_quota(info: Json) -> bool:
    """Whether a quota on writable roots may work: overlay on XFS. The first container that asks for it tells."""
    status: list[list[str]] = info.get("DriverStatus") or []
    return "overlay" in str(info.get("Driver")) and ["Backing Filesystem", "xfs"] in status
