"""What a run can do in one process, it can do on a cluster: be limited, steered, resumed, served, or played outside."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from rollouthub import Limits, Outcome, Rollout, Stop
from rollouthub.errors import ConfigError
from tests.agents.external_stage import OWN_AGENT

from .conftest import Play, Watched
from .test_pool import DEADLY

RANKED = str(Path(__file__).parents[1] / "trainers" / "stream" / "ranked.py")


def scored(records: list[Rollout]) -> int:
    """How many have a score."""
    return sum(record.outcome is Outcome.SCORED for record in records)


async def test_a_limit_of_the_run_can_cut_short_what_is_in_flight(play: Play) -> None:
    run = await play(
        environments=("arithmetic",),
        model="mock/solver?latency=0.05..2",
        limit=200,
        concurrency=64,
        run_limits={"max_tokens": 500, "ending": "cancel"},
    )
    outcomes = Counter(record.outcome for record in run.records())
    assert len(run.reasons) == 1
    assert "500 tokens is reached" in run.reasons[0]
    assert set(outcomes) == {Outcome.SCORED, Outcome.CANCELLED}


async def test_one_episode_can_be_cancelled_interrupted_or_given_other_limits(play: Play) -> None:
    asked = dict[str, str]()

    def steer(run: Watched) -> None:
        second = list(run.live.attempts.values())
        if not asked and run.committed_count >= 8 and len(second) >= 6:
            for attempt, what in zip(second[:6], ("cancel", "interrupt", "retune") * 2, strict=True):
                asked[attempt.sample.rollout_id] = what
                if what == "retune":
                    attempt.retune(Limits(max_turns=1))
                else:
                    assert attempt.cancel() if what == "cancel" else attempt.interrupt()

    run = await play(steer, environments=("arithmetic",), model="mock/solver?latency=1.5", limit=16, concurrency=8)
    assert len(run.records()) == 16
    stops = {what: set[Stop]() for what in ("cancel", "interrupt", "retune")}
    for record in run.records():
        if record.rollout_id in asked:
            stops[asked[record.rollout_id]].add(record.stop)
    assert stops == {"cancel": {Stop.CANCELLED}, "interrupt": {Stop.INTERRUPTED}, "retune": {Stop.TURN_LIMIT}}


async def test_a_run_moves_between_pools(play: Play, tmp_path: Path) -> None:
    settings: dict[str, Any] = {"environments": ("arithmetic",), "model": "mock/solver", "seed": 5}
    assert len((await play(**settings, limit=4, pool="local")).records()) == 4
    (tmp_path / "local").rename(tmp_path / "ray")
    assert len((await play(**settings, limit=12, resume=True)).records()) == 12
    (tmp_path / "ray").rename(tmp_path / "local")
    run = await play(**settings, limit=20, resume=True, pool="local")
    assert scored(run.records(effective=False)) == 20


async def test_files_are_found_from_where_the_run_was_started(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "lively.py").write_text(DEADLY.replace("test/7", "none"))
    monkeypatch.chdir(tmp_path / "here")
    run = await play(environments=("lively.py",), agent="null", workers=1)
    assert scored(run.records()) == 40


@pytest.mark.live
async def test_environment_servers_and_models_of_environments_are_the_workers_own(play: Play) -> None:
    run = await play(
        environments=("customer_service",),
        model="mock/solver",
        set={"user": "model"},
        roles={"user": {"name": "mock/echo"}},
        limit=8,
        served=True,
        servers=2,
        workers=1,
    )
    assert len(run.records()) == 8
    assert {record.outcome for record in run.records()} == {Outcome.SCORED}
    assert all(record.role_calls for record in run.records())


@pytest.mark.soak
async def test_programs_from_outside_play_on_the_workers_node(play: Play) -> None:
    run = await play(
        environments=("arithmetic",),
        model="mock/solver",
        agent="external",
        agent_set={"command": ["python3", OWN_AGENT.name], "files": str(OWN_AGENT), "sandbox": "none"},
        limit=2,
        workers=1,
    )
    assert scored(run.records()) == 2
    assert all(record.turns and record.turns[0].tool_calls for record in run.records())


async def test_a_person_plays_here_and_not_on_a_cluster(play: Play) -> None:
    with pytest.raises(ConfigError, match="plays at this terminal, not on a cluster"):
        await play(environments=("arithmetic",), agent="human")


async def test_groups_are_scored_whichever_worker_played_their_samples(play: Play) -> None:
    run = await play(environments=(RANKED,), model="mock/say?text=done", repeats=4, concurrency=2, pool="ray")
    records = run.records()
    assert Counter(record.reward for record in records) == Counter({0.0: 3, 1.0: 3, 2.0: 3, 3.0: 3})
    assert not any(record.awaits_group for record in records)
    assert not run.live.attempts
