"""Two runs task by task: what got worse, and where that is more than chance."""

from pathlib import Path

from rollouthub import Outcome
from rollouthub.analysis.compare.task_pairs import judged_tasks, task_differences
from rollouthub.rollout import TaskRef
from tests.analysis.compare.test_comparison import played, run
from tests.store.records import record


async def test_a_task_that_lost_all_is_more_than_chance_and_one_that_lost_a_sample_is_not(
    tmp_path: Path,
) -> None:
    first = await run(tmp_path, "first", [played(task, 1.0, sample=sample) for task in range(3) for sample in range(6)])
    lost = {0: 6, 1: 1, 2: 0}
    second = await run(
        tmp_path,
        "second",
        [played(task, float(sample >= lost[task]), sample=sample) for task in range(3) for sample in range(6)],
    )
    found, tested = judged_tasks(task_differences(first, second))
    assert tested == 3
    assert [round(task.difference or 0.0, 3) for task in found] == [-1.0, -0.167, 0.0]
    assert [task.is_real for task in found] == [True, False, False]
    # Only the first could have come under the level at all: neither one lost sample nor none can.
    assert [task.adjusted is None for task in found] == [False, True, True]


async def test_what_was_not_scored_is_no_zero_and_keeps_its_kind(tmp_path: Path) -> None:
    failed = record("g1-0", outcome=Outcome.AGENT_FAILED, task=TaskRef(split="test", id="test/1", digest="sha256:0"))
    first = await run(tmp_path, "first", [played(0, 1.0), played(1, 1.0), played(7, 1.0)])
    second = await run(tmp_path, "second", [played(0, 0.0), failed])
    (one, other), _ = judged_tasks(task_differences(first, second))
    assert (one.difference, one.second.passed, one.is_real) == (-1.0, 0, False)
    assert (other.difference, other.second.unscored, other.chance) == (None, {"agent_failure": 1}, None)


async def test_tasks_that_there_was_no_time_for_are_not_tested(tmp_path: Path) -> None:
    samples = [(task, sample) for task in range(3) for sample in range(6)]
    first = await run(tmp_path, "first", [played(task, 1.0, sample=sample) for task, sample in samples])
    second = await run(tmp_path, "second", [played(task, 0.0, sample=sample) for task, sample in samples])
    found, tested = judged_tasks(task_differences(first, second), most_seconds=-1.0)
    assert (tested, [task.is_real for task in found]) == (1, [True, False, False])
    assert [task.verdict for task in found] == ["worse", "lower", "lower"]
