"""Who needs an engine that is away waits for it, together with all the others, and not for ever."""

import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import pytest

from rollouthub.errors import SandboxError
from rollouthub_sandboxes.engine.engine import Engine, EngineAway, EngineError
from rollouthub_sandboxes.engine.engine_wait import Patience
from tests.sandboxes.docker.stub_engine import engine_at, listening


class World:
    """Counts what is done while an engine goes and comes."""

    def __init__(self, engine: Engine, seconds: float) -> None:
        self.patience = Patience(engine, self.on_return, seconds=seconds)
        self.attempts = self.returns = 0
        self.results = list[str]()
        self.tried, self.came = anyio.Event(), anyio.Event()
        self.error: SandboxError | None = EngineAway("it broke off")

    async def need(self) -> None:
        self.results.append(await self.patience.outlast(self.attempt))
        self.came.set()
        self.came = anyio.Event()

    async def on_return(self) -> None:
        self.returns += 1

    async def attempt(self) -> str:
        self.attempts += 1
        self.tried.set()
        if self.error is not None:
            raise self.error
        return "done"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "engine.sock"


@pytest.fixture
async def engine(path: Path) -> AsyncGenerator[Engine]:
    """Where nobody listens yet."""
    async with engine_at(path) as found:
        yield found


async def test_all_who_need_an_engine_go_on_when_it_is_back(
    engine: Engine, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(engine, 20)
    with caplog.at_level(logging.WARNING), anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for _ in range(8):
                group.start_soon(world.need)
            await world.tried.wait()
            await anyio.wait_all_tasks_blocked()
            assert (world.attempts, world.results) == (8, [])
            world.error = None
            async with listening(path):
                while len(world.results) < 8:
                    await world.came.wait()
    assert (world.attempts, world.returns) == (16, 1)
    said = [record.getMessage() for record in caplog.records if "patience" in record.name]
    assert len(said) <= 2, said  # that it is away, where it was looked for before it was back, and that it is back


async def test_an_engine_that_stays_away_is_given_up_in_time(engine: Engine, path: Path) -> None:
    world, errors = World(engine, 0.5), list[EngineAway]()

    async def need() -> None:
        with pytest.raises(EngineAway, match=r"engine\.sock") as caught:
            await world.patience.outlast(world.attempt)
        errors.append(caught.value)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(need)
    assert len(errors) == 4
    assert all(error.retryable for error in errors)
    assert world.returns == 0


async def test_what_an_engine_refuses_is_not_tried_again(engine: Engine, path: Path) -> None:
    world = World(engine, 20)
    async with listening(path):
        for error in (EngineError("no such image", 404), EngineError("it did not answer"), SandboxError("broken")):
            world.error, world.attempts = error, 0
            with anyio.fail_after(10), pytest.raises(SandboxError) as caught:
                await world.patience.outlast(world.attempt)
            assert caught.value is error
            assert world.attempts == 1


async def test_a_container_that_broke_as_its_engine_went_is_tried_again(engine: Engine, path: Path) -> None:
    world = World(engine, 20)
    world.error = SandboxError("its connection broke")
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(world.need)
            await world.tried.wait()
            await anyio.wait_all_tasks_blocked()
            world.error = None
            async with listening(path):
                while not world.results:
                    await world.came.wait()
    assert world.results == ["done"]


async def test_what_breaks_off_each_time_is_given_up_though_the_engine_is_there(engine: Engine, path: Path) -> None:
    world = World(engine, 0.6)
    async with listening(path):
        with anyio.fail_after(10), pytest.raises(EngineAway, match="it broke off"):
            await world.patience.outlast(world.attempt)
    assert 2 <= world.attempts <= 4
