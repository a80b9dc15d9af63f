"""Whole runs against a server of the tests."""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials
from rollouthub.models.router import Router
from rollouthub.rollout import Outcome, Rollout
from tests.pressure.hostile import HostileServer


@dataclass
class Played:
    """A run while it plays, and what came of it."""

    stop: StopSignal = field(default_factory=StopSignal)
    live: LiveRun = field(init=False)
    rollouts: list[Rollout] = field(default_factory=list[Rollout])

    def __post_init__(self) -> None:
        self.live = LiveRun(self.stop)

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None: ...
    def stopped(self, reason: str) -> None: ...
    def warned(self, text: str) -> None: ...

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        self.rollouts += rollouts

    @property
    def router(self) -> Router:
        """The run's model."""
        assert self.live.parts is not None
        model = self.live.parts.models["policy"]
        assert isinstance(model, Router)
        return model

    @property
    def limit(self) -> int:
        """How many calls at a time its only server gets now."""
        return self.router.status()[0].limit

    @property
    def last(self) -> dict[str, Rollout]:
        """The last attempt at every sample."""
        return {each.rollout_id: each for each in sorted(self.rollouts, key=lambda each: each.attempt)}

    @property
    def outcomes(self) -> Counter[Outcome]:
        """How the samples ended."""
        return Counter(each.outcome for each in self.last.values())

    def check(self, count: int) -> None:
        """What holds of every run: nothing lost, and a score where the outcome says so and nowhere else."""
        assert len(self.last) == count
        attempts = {(each.rollout_id, each.attempt) for each in self.rollouts}
        assert len(attempts) == len(self.rollouts)
        for each in self.rollouts:
            assert (each.score is not None) == (each.outcome is Outcome.SCORED)
            assert bool(each.faults) == (each.outcome is not Outcome.SCORED)
            if each.score is not None:
                assert each.score.reward == 1.0

    async def until(self, is_so: Callable[[], bool], seconds: float) -> None:
        """Wait until something is so, at most so long."""
        with anyio.fail_after(seconds):
            # What changes is a figure, and nobody announces it.
            while not is_so():  # noqa: ASYNC110
                await anyio.sleep(0.02)


Play = Callable[..., Awaitable[Played]]


@pytest.fixture
def play(tmp_path: Path) -> Play:
    """Play a whole run, as `play(server, count, concurrency, during, seconds=…, **request)`."""

    async def run(
        server: HostileServer,
        count: int,
        concurrency: int,
        during: Callable[[Played], Awaitable[None]] | None = None,
        *,
        seconds: float = 30.0,
        **request: Any,
    ) -> Played:
        played = Played()
        plan = make_plan(
            RunRequest(
                environments=("arithmetic",),
                model="hosted_vllm/served",
                base_url=(server.url,),
                concurrency=concurrency,
                limit=count,
                set={"size": count},
                track=(),
                **request,
            )
        )
        with anyio.fail_after(seconds):
            async with anyio.create_task_group() as tasks:
                if during is not None:
                    begin = during

                    async def meddle() -> None:
                        await played.until(lambda: played.live.parts is not None, 60)
                        await begin(played)

                    tasks.start_soon(meddle)
                await play_run(
                    plan,
                    tmp_path / "run",
                    given="",
                    resume=False,
                    credentials=Credentials({}),
                    observer=played,
                    stop=played.stop,
                    live=played.live,
                )
        return played

    return run
