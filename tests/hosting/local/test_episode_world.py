"""What an environment holds around its episode (`lifespan`), and what it stops at the end of it (`seal`)."""

from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from rollouthub import Deadlines, Environment, EnvironmentConfig, Public, Score, Secret, Submission, Task, tool
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode


class StageConfig(EnvironmentConfig):
    """How the seal behaves."""

    seal: str = "done"
    journal: list[str] = []


class Stage(Environment[StageConfig]):
    """Notes the order of its hooks."""

    extra: Path | None = None

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id="one", prompt="Go."), Secret())

    @classmethod
    def sources(cls) -> tuple[Path, ...]:
        return () if cls.extra is None else (cls.extra,)

    @asynccontextmanager
    async def lifespan(self) -> AsyncGenerator[None]:
        self.config.journal.append("begin")
        async with anyio.create_task_group() as group:
            yield
            group.cancel_scope.cancel()
        self.config.journal.append("end")

    async def setup(self) -> None:
        self.config.journal.append("setup")

    @tool
    async def wait(self) -> None:
        """Wait."""
        self.config.journal.append("wait")
        try:
            await anyio.sleep_forever()
        finally:
            self.config.journal.append("stopped")

    async def seal(self) -> None:
        self.config.journal.append("seal")
        if self.config.seal == "raise":
            raise RuntimeError("stuck")
        if self.config.seal == "hang":
            await anyio.sleep_forever()

    async def verify(self, submission: Submission) -> Score:
        self.config.journal.append("verify")
        return Score(reward=1.0)

    async def close(self) -> None:
        self.config.journal.append("close")


@asynccontextmanager
async def playing(seal: str = "done") -> AsyncGenerator[tuple[HostedEpisode, list[str]]]:
    config = StageConfig(seal=seal)
    host = InProcessHost("stage", Stage, config)
    card = await host.find_task("test", "one", 0)
    async with host.open(card, seed=0, deadlines=Deadlines(close=0.2)) as episode:
        assert isinstance(episode, HostedEpisode)
        yield episode, config.journal


async def test_the_seal_comes_once_after_the_calls_and_before_the_verdict() -> None:
    async with playing() as (episode, journal), anyio.create_task_group() as group:
        arguments: dict[str, Any] = {}
        group.start_soon(episode.seats["agent"].call_tool, "wait", arguments)
        await anyio.wait_all_tasks_blocked()
        await episode.seal()
        await episode.verify(Submission())
        await episode.seal()
    assert journal == ["begin", "setup", "wait", "stopped", "seal", "verify", "close", "end"]


async def test_an_episode_closed_without_a_verdict_is_sealed_too() -> None:
    async with playing() as (_, journal):
        pass
    assert journal == ["begin", "setup", "seal", "close", "end"]


async def test_a_seal_that_fails_is_the_environments_fault_and_keeps_the_verdict() -> None:
    async with playing("raise") as (episode, _):
        assert (await episode.verify(Submission())).reward == 1.0
    assert [(fault.boundary, fault.message) for fault in episode.faults] == [("environment", "RuntimeError: stuck")]


async def test_a_seal_that_hangs_is_given_up_at_its_deadline() -> None:
    async with playing("hang") as (episode, _):
        await episode.verify(Submission())
    assert [fault.message for fault in episode.faults] == ["TaskError: seal was not done after 0.2 s"]


def test_a_digest_covers_the_files_an_environment_names(tmp_path: Path) -> None:
    file = tmp_path / "verify.py"

    class Filed(Stage):
        extra = file

    file.write_text("one")
    before = InProcessHost("stage", Filed).info.digest
    file.write_text("two")
    assert InProcessHost("stage", Filed).info.digest != before
