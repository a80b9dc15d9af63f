"""What `hub run` counts of itself: every sample once, by the attempt that counts in the store."""

import re
from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.live.follow import RunFeed, RunProgress
from rollouthub.live.follow.played_so_far import PlayedSoFar
from rollouthub.store import open_writer
from tests.store.records import RESOLVED, record

from .conftest import Hub

FAILED, BROKEN, CANCELLED, SCORED = (
    Outcome.AGENT_FAILED,
    Outcome.MODEL_FAILED,
    Outcome.CANCELLED,
    Outcome.SCORED,
)


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        ((BROKEN, BROKEN, SCORED), SCORED),
        ((BROKEN, CANCELLED), CANCELLED),
        ((CANCELLED, FAILED), FAILED),
        ((BROKEN, FAILED), FAILED),
        ((FAILED,), FAILED),
    ],
)
def test_a_sample_that_is_played_again_counts_once(outcomes: tuple[Outcome, ...], counts: Outcome) -> None:
    played = PlayedSoFar()
    for number, outcome in enumerate(outcomes):
        played.add([record("g-0", number, outcome)])
    assert {outcome: count for outcome, count in played.means.outcomes.items() if count} == {counts: 1}
    assert (played.means.finished, played.retries) == (1, len(outcomes) - 1)


async def test_a_run_shows_the_rate_that_those_who_watch_it_see(tmp_path: Path) -> None:
    now = 0.0
    played = PlayedSoFar(clock=lambda: now)
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_plan(400)
        await writer.flush()
        with RunFeed(tmp_path / "run") as feed:
            feed.refresh()
            now = began = feed.info.created_at
            played.start(400, 0)
            for number in range(90):
                outcome = BROKEN if number % 9 == 0 else SCORED
                attempts = [record(f"g{number // 2}-{number % 2}", 0, outcome, started_at=began + number)]
                if outcome is BROKEN:
                    attempts.append(record(attempts[0].rollout_id, 1, started_at=began + number + 2.5))
                for attempt in attempts:
                    await writer.add(attempt)
                    played.add([attempt])
            await writer.flush()
            feed.refresh()
            for seconds in (30.0, 93.0, 120.0, 400.0):
                now = began + seconds
                assert facts(played.progress) == facts(feed.progress(now))
            assert played.progress.rate is None, "nothing finished in the last minute"
            now = began + 93.0
            assert played.progress.rate is not None
    played.end()
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        assert facts(played.progress) == facts(feed.progress())
        assert played.progress.rate == 90 / played.progress.seconds


def facts(progress: RunProgress) -> tuple[object, ...]:
    """What both tell of a run, whatever its status."""
    return progress.done, progress.rate, progress.eta_seconds, progress.seconds


def test_the_run_and_the_watching_command_say_the_same_rate(hub: Hub) -> None:
    slow = ("-m", "mock/solver?latency=0.2", "-c", "1", "--limit", "3")
    said = re.search(r"3/3 · ([\d.,]+)/(\w+)", hub("run", "arithmetic", *slow, "-o", "run").err)
    heard = re.search(r"done: 3 of 3, 100.0%, ([\d.,]+) per (\w+)", hub("watch", "run", "--text").out)
    assert said is not None
    assert heard is not None
    assert said.groups() == (heard[1], {"second": "s", "minute": "min"}[heard[2]])
