"""Means kept up to date: the same as counted anew, at the cost of what is new."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub import Outcome, Score
from rollouthub.errors import RunDirectoryError
from rollouthub.statistics import RunningMeans
from rollouthub.store import open_run, open_writer
from rollouthub.store.durable_means import StoredMeans
from tests.store.records import RESOLVED, record, write


def anew(directory: Path) -> RunningMeans:
    """Counted from the beginning."""
    means = RunningMeans(planned=8)
    with open_run(directory) as run:
        means.outcomes.update(run.outcomes())
        means.reward_sum, means.judged, means.passed = run.reward_sums()
    return means


async def test_means_follow_a_run_in_which_attempts_take_the_place_of_others(tmp_path: Path) -> None:
    stored = StoredMeans(tmp_path, planned=8)
    low, unjudged = Score(reward=0.25, passed=False), Score(reward=-1.0)
    batches = [
        [record("a-0", 0, Outcome.MODEL_FAILED), record("b-0"), record("c-0", score=low)],
        [record("a-0", 1, Outcome.SANDBOX_FAILED), record("d-0", 0, Outcome.AGENT_FAILED)],
        [],
        # The first of these never counted when it was looked: two attempts of one sample in one batch.
        [record("e-0", 0, Outcome.CANCELLED), record("e-0", 1, score=unjudged), record("a-0", 2)],
    ]
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        for batch in batches:
            for rollout in batch:
                await writer.add(rollout)
            await writer.flush()
            assert stored.read().to_json() == anew(tmp_path).to_json()
    assert stored.read().to_json() == {
        "planned": 8,
        "scored": 4,
        "coverage": 0.5,
        "mean_reward": 0.3125,
        "mean_reward_strict": 0.25,
        "pass_rate": 2 / 3,
        "outcomes": {"scored": 4, "agent_failed": 1},
    }


async def test_what_was_read_is_not_read_again(tmp_path: Path) -> None:
    await write(tmp_path, [record("a-0"), record("b-0")])
    stored = StoredMeans(tmp_path)
    assert stored.read().mean_reward == 1.0
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection, connection:
        connection.execute("UPDATE rollouts SET reward = 0.0")
    assert anew(tmp_path).mean_reward == 0.0, "there is nothing to see"
    assert stored.read().mean_reward == 1.0


async def test_means_that_were_handed_out_stay_as_they_are(tmp_path: Path) -> None:
    stored = StoredMeans(tmp_path)
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(record("a-0"))
        await writer.flush()
        first = stored.read()
        await writer.add(record("b-0"))
        await writer.flush()
        assert (first.finished, stored.read().finished) == (1, 2)
        assert first.finished == 1


async def test_readings_at_once_count_nothing_twice(tmp_path: Path) -> None:
    await write(tmp_path, [record(f"g{number}-0") for number in range(400)])
    for _ in range(5):
        stored = StoredMeans(tmp_path)
        with ThreadPoolExecutor(8) as threads:
            readings = [threads.submit(stored.read) for _ in range(8)]
        assert [reading.result().finished for reading in readings] == [400] * 8


async def test_a_row_that_cannot_be_leaves_what_was_counted_as_it_was(tmp_path: Path) -> None:
    stored = StoredMeans(tmp_path)
    await write(tmp_path, [record("a-0")])
    assert stored.read().finished == 1
    await write(tmp_path, [record("b-0"), record("c-0")], resume=True)
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection, connection:
        connection.execute("UPDATE rollouts SET reward = NULL WHERE rollout_id = 'c-0'")
    for _ in range(2):
        with pytest.raises(RunDirectoryError, match="damaged: a scored rollout has a finite reward"):
            stored.read()
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection, connection:
        connection.execute("UPDATE rollouts SET reward = 0.5 WHERE rollout_id = 'c-0'")
    assert (stored.read().finished, stored.read().reward_sum) == (3, 2.5)
