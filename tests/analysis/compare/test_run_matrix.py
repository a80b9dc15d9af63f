"""Runs × environments: paired with the first run, tested together, and empty where a run did not play."""

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from rollouthub import Score
from rollouthub.analysis.compare.board import board_rows
from rollouthub.analysis.compare.compared_run import ComparedRun, read_compared
from rollouthub.analysis.compare.comparison import compare_runs
from rollouthub.analysis.compare.run_matrix import run_matrix
from rollouthub.analysis.compare.task_changes import run_changes, task_across
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.rollout import EnvironmentRef, Rollout, TaskRef
from tests.store.records import record, write


def played(environment: str, number: int, reward: float, sample: int = 0) -> Rollout:
    """A scored rollout of an environment's task."""
    return record(
        f"{environment}{number}-{sample}",
        environment=EnvironmentRef(name=environment, version="1", digest="sha256:0"),
        task=TaskRef(split="test", id=f"test/{number}", digest="sha256:0"),
        score=Score(reward=reward, passed=reward > 0),
    )


async def run(folder: Path, name: str, passes: Mapping[str, str], samples: int = 1) -> ComparedRun:
    """A run; `passes` has a letter for each task of an environment: `1` passed, `0` not."""
    records = [
        played(environment, number, float(letter), sample)
        for environment, letters in passes.items()
        for number, letter in enumerate(letters)
        for sample in range(samples)
    ]
    await write(folder / name, records)
    return read_compared(folder / name, name)


def sign_test(lost: int, won: int) -> float:
    """McNemar's exact p-value."""
    n, k = lost + won, min(lost, won)
    return min(1.0, 2 * sum(math.comb(n, each) for each in range(k + 1)) / 2**n)


async def test_cells_are_tested_as_one_family(tmp_path: Path) -> None:
    base = await run(tmp_path, "base", {"sums": "1" * 12, "words": "0" * 10})
    worse = await run(tmp_path, "worse", {"sums": "0" * 7 + "1" * 5, "words": "1" * 6 + "0" * 4})
    same = await run(tmp_path, "same", {"sums": "1" * 12, "words": "0" * 10})
    matrix = run_matrix([base, worse, same])
    assert matrix.environments == ("sums", "words")
    first, second, third = matrix.rows
    assert [cell.verdict for cell in first.cells if cell] == ["", ""]
    sums, words = second.cells
    overall = second.overall
    assert sums is not None
    assert words is not None
    assert overall is not None
    # Three tests can be significant; those of the run that equals the first cannot, and count as none.
    ps = [sign_test(7, 0), sign_test(0, 6), sign_test(7, 6)]
    assert [each.chance.p for each in (sums, words, overall) if each.chance] == pytest.approx(ps)
    assert matrix.tests == 3
    assert [sums.adjusted, words.adjusted, overall.adjusted] == pytest.approx([3 * ps[0], 2 * ps[1], ps[2]])
    # 0.03125 alone would be significant; among three it is not.
    assert (words.is_significant, words.verdict, sums.verdict) == (False, "unclear", "worse")
    assert [cell.adjusted for cell in third.cells if cell] == [None, None]
    assert sums.difference is not None
    assert sums.difference.value == pytest.approx(-7 / 12)


async def test_a_run_need_not_have_played_every_environment(tmp_path: Path) -> None:
    base = await run(tmp_path, "base", {"sums": "1111", "words": "0000"})
    one = await run(tmp_path, "one", {"sums": "0101"})
    two = await run(tmp_path, "two", {"words": "0011"})
    found = compare_runs([base, one, two], in_detail=True)
    assert found.standings == ()
    assert found.matrix is not None
    assert [[cell is not None for cell in row.cells] for row in found.matrix.rows] == [
        [True, True],
        [True, False],
        [False, True],
    ]
    assert all(row.overall is None for row in found.matrix.rows)
    with pytest.raises(ConfigError, match="0 tasks in common"):
        compare_runs([one, two], in_detail=True)


async def test_the_tasks_that_got_worse_come_first_by_significance(tmp_path: Path) -> None:
    first = await run(tmp_path, "first", {"sums": "1110"}, samples=8)
    second = await run(tmp_path, "second", {"sums": "1011"}, samples=8)
    found = run_changes(first, second)
    assert found.counts == {"same": 2, "worse": 1, "better": 1}
    assert [task.key.task_id for task in found.worse] == ["test/1"]
    assert [task.key.task_id for task in found.better] == ["test/3"]
    assert found.worse[0].adjusted == pytest.approx(2 / math.comb(16, 8))


async def test_a_task_is_followed_across_runs(tmp_path: Path) -> None:
    first = await run(tmp_path, "first", {"sums": "10"})
    second = await run(tmp_path, "second", {"sums": "0"})
    (found,) = task_across([first, second], "sums/test/1")
    assert found.sides[0] is not None
    assert (found.sides[0].mean_reward, found.sides[1]) == (0.0, None)
    with pytest.raises(UnknownNameError, match="did you mean 'test/1'"):
        task_across([first, second], "test/11")


async def test_a_board_ranks_runs_of_the_same_tasks_and_says_where_a_receipt_lies(tmp_path: Path) -> None:
    await run(tmp_path, "low", {"sums": "0001"})
    await run(tmp_path, "high", {"sums": "0111"})
    await run(tmp_path, "other", {"sums": "11111"})
    (tmp_path / "high.receipt.json").write_text("{}")
    rows = board_rows(tmp_path / name for name in ("low", "other", "high"))
    ranked = [Path(row.run).name for row in rows if row.tasks == 4]
    assert ranked == ["high", "low"]
    by_name = {Path(row.run).name: row for row in rows}
    high = by_name["high"]
    assert (high.receipt, by_name["low"].receipt) == ("unchecked", "none")
    assert (high.task_set == by_name["low"].task_set, high.task_set == by_name["other"].task_set) == (True, False)
    assert high.mean_reward is not None
    assert high.pass_at_1 is not None
    assert (high.mean_reward.value, high.pass_at_1.value, high.scored) == (0.75, 0.75, 4)
    # A record costs a dollar, and the request asks for two samples of each task.
    assert (high.cost, high.planned, high.coverage) == (4.0, 8, 0.5)
