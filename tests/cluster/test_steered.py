"""Pausing a run on a cluster, saying something to its agents, and playing its samples again."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Outcome, Rollout
from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run import play_run
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.models.credentials import Credentials

from .conftest import PATIENCE_SECONDS, Watched

LOOK_SECONDS = 0.1
"""Between looks, at most: not all that matters is told."""


class Looker:
    """Looks again whenever anything moves."""

    def __init__(self) -> None:
        self._news = anyio.Event()

    def began(self, attempt: InFlight) -> None:
        self._news.set()

    def moved(self, attempt: InFlight) -> None:
        self._news.set()

    def ended(self, attempt: InFlight, rollout: Rollout) -> None:
        self._news.set()

    async def until(self, claim: Callable[[], object]) -> None:
        """Wait until something holds."""
        while not claim():
            self._news = anyio.Event()
            with anyio.move_on_after(LOOK_SECONDS):
                await self._news.wait()


@pytest.mark.live
async def test_a_run_on_a_cluster_is_paused_told_and_asked_for_another_attempt(cluster: Any, tmp_path: Path) -> None:
    stop = StopSignal()
    run = Watched(tmp_path / "ray", LiveRun(stop), stop)
    live, looker = run.live, Looker()
    live.watchers.append(looker)
    request = RunRequest.model_validate(
        {
            "environments": ["arithmetic"],
            "model": "mock/say?text=hello&latency=600",
            "pool": "ray",
            "workers": 2,
            "concurrency": 4,
            "limit": 8,
            "agent": "single_turn",
            "track": (),
        }
    )

    async def play() -> None:
        await play_run(
            make_plan(request),
            run.directory,
            given="",
            resume=False,
            credentials=Credentials({}),
            observer=run,
            stop=stop,
            live=live,
        )

    def at_the_model() -> list[str]:
        return [name for name, attempt in live.attempts.items() if attempt.state == "model"]

    told, cancelled, others = "", "", list[str]()
    with anyio.fail_after(PATIENCE_SECONDS):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await looker.until(lambda: len(at_the_model()) == 4)
            assert live.hold(True)
            told, cancelled, *others = at_the_model()
            for name in (cancelled, *others):
                assert live.attempts[name].cancel()
            await looker.until(lambda: set(live.attempts) == {told})  # what was handed out and not begun came back
            assert (live.state, set(live.undecided)) == ("paused", {cancelled, *others})
            assert live.retry(cancelled) == "queued"
            assert live.attempts[told].why_no_interventions is None
            assert live.attempts[told].intervene("hurry")
            assert live.attempts[told].intervene("up")
            assert live.hold(False)
            await looker.until(lambda: len(at_the_model()) == 4)
            await looker.until(lambda: run.committed_count == 3)
            stop.set()
            for name in at_the_model():
                assert live.attempts[name].interrupt()
    assert_kept(run, told, cancelled, others)


def assert_kept(run: Watched, told: str, cancelled: str, others: list[str]) -> None:
    """What came of it is in the store."""
    records: dict[str, list[tuple[int, Outcome]]] = {}
    for record in run.records(effective=False):
        records.setdefault(record.rollout_id, []).append((record.attempt, record.outcome))
        assert [said.text for said in record.told] == (["hurry", "up"] if record.rollout_id == told else [])
    assert records[told] == [(0, Outcome.SCORED)]
    assert sorted(records[others[0]]) == [(0, Outcome.CANCELLED)]
    assert sorted(records[cancelled])[0] == (0, Outcome.CANCELLED)
