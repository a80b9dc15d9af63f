"""The baseline: containers with the same isolation, created, started, used and removed through the engine's API
alone.
"""

import itertools
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

from rollouthub.sandbox import SandboxSpec
from rollouthub_sandboxes.docker.container import arguments
from rollouthub_sandboxes.docker.container_layout import image_facts, layout
from rollouthub_sandboxes.engine.api import Json
from rollouthub_sandboxes.engine.attach_stream import start_exec
from rollouthub_sandboxes.engine.engine import Engine, EngineError
from rollouthub_sandboxes.engine.labels import labels, this_process
from rollouthub_sandboxes.images import ensure_image

_LIFETIME_SECONDS = 900
_REMOVE_SECONDS = 60.0


class BareEngine:
    """Does what `docker run -d … sleep` and `docker exec … true` do, over the API, without starting a client
    program.
    """

    def __init__(self, engine: Engine, config: Json, run: str) -> None:
        self._engine, self._config, self._run = engine, config, run
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def container(self) -> AsyncGenerator[tuple[str, float]]:
        """Create and start a container; yields its id and the seconds that both took, and removes it on exit."""
        engine, name = self._engine, f"rollouthub-bench-{self._run}-{next(self._numbers)}"
        try:
            started = time.perf_counter()
            made = await engine.call(engine.api.create_container_from_config, self._config, name)
            await engine.call(engine.api.start, made["Id"])
            yield made["Id"], time.perf_counter() - started
        finally:
            with anyio.move_on_after(_REMOVE_SECONDS, shield=True):
                try:
                    await engine.call_again(engine.api.remove_container, name, v=True, force=True)
                except EngineError as error:
                    if error.status not in (404, 409):
                        raise

    async def exec_seconds(self, container: str) -> float:
        """Seconds that the engine's exec of `true` takes, from the request to its exit status."""
        engine = self._engine
        started = time.perf_counter()
        made = await engine.call(engine.api.exec_create, container, ["true"])
        attached = await start_exec(engine, made["Id"])
        while await attached.pieces():
            pass
        await attached.aclose()
        await engine.call(engine.api.exec_inspect, made["Id"])
        return time.perf_counter() - started

    async def run_many(self, count: int, parallel: int) -> float:
        """Start `count` containers, `parallel` at a time; return containers started per second. All are removed
        afterwards.
        """
        limiter = anyio.CapacityLimiter(parallel)
        running, is_counted = 0, anyio.Event()
        started, seconds = time.perf_counter(), 0.0

        async def run_one() -> None:
            nonlocal running, seconds
            async with limiter:
                context = self.container()
                await context.__aenter__()
            running += 1
            if running == count:
                seconds = time.perf_counter() - started
                is_counted.set()
            await is_counted.wait()
            async with limiter:
                await context.__aexit__(None, None, None)

        async with anyio.create_task_group() as group:
            for _ in range(count):
                group.start_soon(run_one)
        return count / seconds


async def bare_engine(engine: Engine, spec: SandboxSpec) -> BareEngine:
    """A `BareEngine` for a spec: its image is provided, and its containers get the isolation of the hub's own."""
    had = await ensure_image(engine, spec.image)
    image = image_facts(await engine.call_again(engine.api.inspect_image, had.digest), had.reference)
    run = secrets.token_hex(4)
    marks = labels(this_process(), run, time.time() + _LIFETIME_SECONDS, "bench")
    config = arguments(spec, image, layout(spec, image), labels=marks, volume=None)
    still = {"OpenStdin": False, "StdinOnce": False, "AttachStdin": False, "AttachStdout": False, "AttachStderr": False}
    return BareEngine(engine, config | still | {"Entrypoint": ["sleep", str(_LIFETIME_SECONDS)]}, run)
