"""Runs on a cluster: the same records as in one process, and what a lost worker costs."""

import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import anyio
import pytest

from rollouthub import Outcome, Rollout, UsageError

from .conftest import Play, Watched

DEADLY = '''
import os, signal
from rollouthub import Environment, EnvironmentConfig, Public, Score, Secret, Task

class Deadly(Environment[EnvironmentConfig]):
    """Task 7 ends the process that plays it."""

    @classmethod
    def tasks(cls, config, split, seed):
        for index in range(40):
            yield Task(Public(id=f"test/{index}", prompt="?"), Secret())

    async def setup(self):
        if self.task.id == "test/7":
            os.kill(os.getpid(), signal.SIGKILL)

    async def verify(self, submission):
        return Score(reward=1.0, passed=True)
'''
DIFFERENT = {"run_id", "started_at", "timings", "turns"}
"""What two runs of the same seeds need not have in common; turns are compared without their times."""


def essence(rollout: Rollout) -> dict[str, Any]:
    """A record without what differs from run to run."""
    turns = [
        turn.model_dump(
            mode="json", exclude={"started": True, "seconds": True, "tool_calls": {"__all__": {"started", "seconds"}}}
        )
        for turn in rollout.turns
    ]
    return {**rollout.model_dump(mode="json", exclude=DIFFERENT), "turns": turns}


def alive(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_the_records_are_those_of_one_process(play: Play) -> None:
    settings: dict[str, Any] = {
        "environments": ("arithmetic", "customer_service"),
        "model": "mock/solver",
        "limit": 12,
        "repeats": 2,
        "seed": 3,
    }
    here = await play(**settings, pool="local")
    there = await play(**settings)
    local = {record.rollout_id: essence(record) for record in here.records()}
    ray = {record.rollout_id: essence(record) for record in there.records()}
    assert len(local) == 48
    assert ray == local


@pytest.mark.soak
async def test_every_worker_plays(play: Play) -> None:
    pids = set[int]()

    def note(run: Watched) -> None:
        pids.update(status.pid for status in run.pool.status())
        if len(pids) == 2:  # the second may come up when the first has played for a while
            run.stop.set("both are there")

    run = await play(note, environments=("arithmetic",), model="mock/solver?latency=0.05", concurrency=16)
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert len(run.records()) == run.committed_count >= 16
    assert [status.in_flight for status in run.pool.gone] == [0, 0]
    for _ in range(1200):
        if not any(map(alive, pids)):
            break
        await anyio.sleep(0.05)
    assert not any(map(alive, pids))


async def test_a_killed_worker_costs_what_it_played_one_retry(play: Play) -> None:
    killed: list[tuple[int, set[str]]] = []

    def kill(run: Watched) -> None:
        workers = run.pool.status()
        # A worker that is alone at first has the other's share, too.
        if not killed and run.committed_count >= 60 and len(workers) == 2 and workers[0].in_flight <= 32:
            victim = workers[0]
            assert alive(victim.pid)
            killed.append((victim.pid, set(run.live.attempts)))
            os.kill(victim.pid, signal.SIGKILL)

    run = await play(kill, environments=("arithmetic",), model="mock/solver?latency=0.2", limit=300, concurrency=32)
    records = run.records(effective=False)
    lost = [record for record in records if record.outcome is not Outcome.SCORED]
    assert Counter(record.rollout_id for record in run.records()) == Counter(
        {record.rollout_id: 1 for record in records}
    )
    assert len(run.records()) == 300
    assert all(record.outcome is Outcome.SCORED for record in run.records())
    assert {fault.type for record in lost for fault in record.faults} == {"WorkerLost"}
    assert 0 < len(lost) <= 32
    assert {record.attempt for record in lost} == {0}
    assert run.pool.lost_workers == 1


async def test_a_task_that_kills_whoever_plays_it_is_set_aside_and_all_others_are_scored(
    play: Play, tmp_path: Path
) -> None:
    file = tmp_path / "deadly.py"
    file.write_text(DEADLY)
    run = await play(environments=(str(file),), agent="null", concurrency=8)
    outcomes = {record.task.id: record.outcome for record in run.records()}
    assert len(outcomes) == 40
    assert outcomes.pop("test/7") is Outcome.ENVIRONMENT_FAILED
    assert set(outcomes.values()) == {Outcome.SCORED}
    deadly = [record for record in run.records(effective=False) if record.task.id == "test/7"]
    assert [record.attempt for record in deadly] == [0, 1, 2]
    assert deadly[-1].faults[0].message.startswith("set aside: its worker was lost 3 times with it in flight")
    assert not deadly[-1].faults[0].retryable


async def test_a_run_stopped_with_work_in_hand_finishes_what_was_begun(play: Play) -> None:
    def stop(run: Watched) -> None:
        if run.committed_count >= 20:
            run.stop.set("enough")

    run = await play(stop, environments=("arithmetic",), model="mock/solver?latency=0.1", limit=400, concurrency=16)
    first = {record.rollout_id for record in run.records()}
    assert 20 <= len(first) < 400
    assert all(record.outcome is Outcome.SCORED for record in run.records())
    resumed = await play(
        resume=True,
        workers=1,
        environments=("arithmetic",),
        model="mock/solver?latency=0.1",
        limit=400,
        concurrency=128,
    )
    assert len(resumed.records(effective=False)) == 400


@pytest.mark.soak
async def test_environments_can_have_workers_of_their_own(play: Play) -> None:
    run = await play(
        environments=("arithmetic", "customer_service"),
        agent="oracle",
        limit=10,
        ray={"by_environment": True},
    )
    assert Counter(record.environment.name for record in run.records()) == {"arithmetic": 10, "customer_service": 10}
    assert all(record.outcome is Outcome.SCORED for record in run.records())


async def test_what_a_worker_refuses_ends_the_run_with_its_words(play: Play) -> None:
    with pytest.raises(UsageError, match="leaves each of 2 workers 5, and one answer may take 8"):
        await play(
            environments=("arithmetic",),
            model="mock/solver",
            tokens_per_minute=10,
            sampling={"max_tokens": 8},
        )


async def test_a_node_that_is_not_there_is_named(play: Play) -> None:
    with pytest.raises(UsageError, match="has no node 'nowhere'"):
        await play(environments=("arithmetic",), ray={"nodes": ["nowhere"]})


async def test_workers_come_and_go_while_the_run_plays(play: Play) -> None:
    seen = list[int]()

    def steer(run: Watched) -> None:
        up = len(run.pool.status())
        seen.append(up)
        if run.live.workers == 2:
            assert run.live.resize_workers(3)
        elif run.live.workers == 3 and up == 3:
            assert run.live.resize_workers(1)
        elif run.live.workers == up == 1:
            run.stop.set("seen enough")

    run = await play(steer, environments=("arithmetic",), model="mock/solver?latency=0.1", limit=5000, concurrency=24)
    assert run.reasons == ["seen enough"]
    assert max(seen) == 3
    assert run.live.workers == 1
    assert run.pool.lost_workers == 0
    assert all(record.outcome is Outcome.SCORED for record in run.records(effective=False))


async def test_workers_share_a_budget_and_the_run_says_that_it_is_used_up(play: Play) -> None:
    run = await play(
        environments=("arithmetic",),
        model="mock/solver?latency=0.02",
        limit=3000,
        concurrency=16,
        budget=0.05,
        price_prompt=1.0,
        price_output=1.0,
        sampling={"max_tokens": 64},
    )
    spent = sum(turn.cost or 0.0 for record in run.records(effective=False) for turn in record.turns)
    assert 0.8 * 0.05 < spent <= 0.05
    assert len(run.reasons) == 1
    assert "the budget of mock/solver" in run.reasons[0]
