"""Runs are compared on their common tasks, paired by task; what cannot be compared is refused."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from rollouthub import Outcome, Score
from rollouthub.analysis.compare.compared_run import ComparedRun, read_compared
from rollouthub.analysis.compare.comparison import compare_runs
from rollouthub.errors import ConfigError
from rollouthub.rollout import EnvironmentRef, Intervention, Rollout, TaskRef
from tests.store.records import record, write


def played(number: int, reward: float, *, sample: int = 0, digest: str = "sha256:0", seed: int = 0) -> Rollout:
    """A scored rollout of a task."""
    task = TaskRef(split="test", id=f"test/{number}", digest=digest)
    return record(f"g{number}-{sample}", task=task, score=Score(reward=reward, passed=reward > 0), seed=seed)


async def run(folder: Path, name: str, records: Sequence[Rollout]) -> ComparedRun:
    """A run of these records."""
    await write(folder / name, records)
    return read_compared(folder / name, name)


async def test_a_difference_is_paired_by_task(tmp_path: Path) -> None:
    # The tasks differ far more than the models do: unpaired, nothing could be seen.
    first = await run(tmp_path, "first", [played(n, 0.1 * n) for n in range(10)])
    second = await run(tmp_path, "second", [played(n, 0.1 * n + 0.02) for n in range(10)])
    standing, other = compare_runs([first, second]).standings
    assert standing.difference is None
    found = other.difference
    assert found is not None
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert (round(found.value, 9), found.low > 0.019, found.high < 0.021) == (0.02, True, True)


async def test_only_common_tasks_count_and_what_is_left_out_is_told(tmp_path: Path) -> None:
    first = await run(tmp_path, "first", [played(n, 1.0) for n in range(6)])
    second = await run(tmp_path, "second", [played(n, 0.0) for n in range(4, 9)])
    comparison = compare_runs([first, second], full_tasks=100)
    assert (comparison.common, comparison.left_out) == (2, {"first": 4, "second": 3})
    assert [standing.rollouts for standing in comparison.standings] == [2, 2]


async def test_runs_without_a_common_task_are_refused_with_the_count(tmp_path: Path) -> None:
    first = await run(tmp_path, "first", [played(n, 1.0) for n in range(3)])
    other = await run(tmp_path, "other", [played(n, 1.0, digest="sha256:1") for n in range(2)])
    with pytest.raises(ConfigError, match=r"0 tasks in common \(.*has 3, .*has 2\): 2 have the same ids"):
        compare_runs([first, other])
    with pytest.raises(ConfigError, match="two runs or more"):
        compare_runs([first])


async def test_costs_count_attempts_that_broke_and_are_projected_to_the_full_set(tmp_path: Path) -> None:
    # A record costs a dollar: two turns of half a dollar.
    tried = record("g1-0", outcome=Outcome.MODEL_FAILED, task=TaskRef(split="test", id="test/1", digest="sha256:0"))
    again = record("g1-0", attempt=1, task=TaskRef(split="test", id="test/1", digest="sha256:0"))
    first = await run(tmp_path, "first", [played(0, 1.0), tried, again])
    second = await run(tmp_path, "second", [played(0, 1.0), played(1, 1.0)])
    one, other = compare_runs([first, second], full_tasks=10).standings
    assert (one.cost, one.projected_cost) == (1.5, 15.0)
    assert (other.cost, other.projected_cost) == (1.0, 10.0)
    assert one.outcomes == {"scored": 2}


async def test_an_unscored_rollout_is_no_zero_and_its_kind_is_kept(tmp_path: Path) -> None:
    failed = record("g1-0", outcome=Outcome.AGENT_FAILED, task=TaskRef(split="test", id="test/1", digest="sha256:0"))
    first = await run(tmp_path, "first", [played(0, 1.0), failed])
    second = await run(tmp_path, "second", [played(0, 1.0), played(1, 0.0)])
    one, other = compare_runs([first, second]).standings
    assert one.mean_reward is not None
    assert one.mean_reward.value == 1.0
    assert one.outcomes == {"scored": 1, "agent_failure": 1}
    assert other.difference is not None
    assert (other.difference.value, other.difference.tasks) == (0.0, 1)


async def test_other_seeds_are_remarked_on(tmp_path: Path) -> None:
    first = await run(tmp_path, "first", [played(0, 1.0), played(1, 1.0)])
    second = await run(tmp_path, "second", [played(0, 1.0, seed=7), played(1, 1.0, seed=7)])
    assert compare_runs([first, second]).remarks == (
        "second was played with other seeds of the environment than first",
    )


async def test_other_bytes_of_the_environment_are_remarked_on_even_where_only_a_dependency_changed(
    tmp_path: Path,
) -> None:
    one, other = (
        EnvironmentRef(name="arithmetic", version="1", digest="sha256:0", bundle="sha256:b", dependencies=dependencies)
        for dependencies in ("sha256:old", "sha256:new")
    )
    first = await run(tmp_path, "first", [played(n, 1.0).model_copy(update={"environment": one}) for n in range(2)])
    second = await run(tmp_path, "second", [played(n, 1.0).model_copy(update={"environment": other}) for n in range(2)])
    assert compare_runs([first, second]).remarks == (
        "second was played with another version of the environment than first",
    )


async def test_help_of_a_person_is_remarked_on(tmp_path: Path) -> None:
    first = await run(tmp_path, "first", [played(0, 1.0), played(1, 1.0)])
    helped = played(0, 1.0).model_copy(update={"told": (Intervention(at=1.0, seat="agent", text="try 7"),)})
    second = await run(tmp_path, "second", [helped, played(1, 1.0)])
    assert compare_runs([first, second]).remarks == ("second: in 1 rollouts a person spoke to the agent",)
