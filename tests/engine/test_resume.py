"""Taking a run up again: what counts as planned, what is remembered, what is tried again."""

from pathlib import Path

import pytest

from rollouthub import Outcome
from rollouthub.engine.run_request import build_request, request_from_file
from rollouthub.errors import RunDirectoryError
from rollouthub.store import RunReader, open_run
from tests.engine.resuming import asked, half_broken, play, stored, summed_up


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """The file of an environment that is half broken."""
    return half_broken(tmp_path)


@pytest.mark.parametrize(("limit", "planned"), [(10, 10), (4, 10), (16, 16)])
async def test_coverage_counts_what_is_kept_and_what_is_asked_for(
    world: Path, tmp_path: Path, limit: int, planned: int
) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=10), run)
    watching = await play(asked(world, limit=limit), run, resume=True)
    assert (watching.planned, watching.done) == (planned, 5)
    summary = summed_up(run)
    assert (summary.rollouts, summary.scored, summary.missing) == (planned, planned // 2, 0)
    assert summary.means.coverage == 0.5


async def test_fewer_repeats_do_not_hide_what_was_not_scored(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=2, repeats=4), run)
    await play(asked(world, limit=2, repeats=1), run, resume=True)
    summary = summed_up(run)
    assert (summary.rollouts, summary.scored) == (8, 4)


async def test_faults_are_tried_again_and_what_is_scored_is_not(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=6), run)
    (world.with_name("broken")).unlink()
    await play(asked(world, limit=6), run, resume=True)
    with open_run(run) as reader:
        assert reader.outcomes() == {Outcome.SCORED: 6}
        assert _attempts(reader) == {0: 6, 1: 3}


def _attempts(reader: RunReader) -> dict[int, int]:
    counts: dict[int, int] = {}
    for row in reader.summaries(effective=False):
        counts[row.attempt] = counts.get(row.attempt, 0) + 1
    return counts


async def test_a_resume_remembers_its_newest_settings(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=4), run)
    await play(asked(world, limit=8, repeats=2), run, resume=True)
    for request in stored(run):
        assert (request["limit"], request["repeats"]) == (8, 2)
    bare = build_request(request_from_file(run / "resolved.json"), "stored")
    assert (await play(bare, run, resume=True)).planned == 16
    with open_run(run) as reader:
        assert {group.planned for group in reader.group_counts()} == {2}


async def test_changes_are_judged_by_what_the_run_was_made_with(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=4), run)
    await play(asked(world, limit=6), run, resume=True)
    with pytest.raises(RunDirectoryError, match=r"request\.agent"):
        await play(asked(world, limit=6, agent="oracle"), run, resume=True)
    assert [request["agent"] for request in stored(run)] == ["null", "null"]


async def test_settings_that_say_the_same_in_other_words_are_no_change(world: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    await play(asked(world, limit=2), run)
    await play(asked(world, limit=2, split="test", limits={"max_turns": 50}), run, resume=True)
    with pytest.raises(RunDirectoryError, match=r"limits\.max_turns: 50 → 9"):
        await play(asked(world, limit=2, limits={"max_turns": 9}), run, resume=True)


async def test_a_budget_is_the_runs_however_often_it_is_resumed(tmp_path: Path) -> None:
    run = tmp_path / "run"
    request = build_request(
        {
            "environments": ["arithmetic"],
            "model": "mock/solver",
            "sampling": {"max_tokens": 100},
            "concurrency": 1,
            "budget": 0.02,
            "price_prompt": 10.0,
            "price_output": 10.0,
        },
        "test",
    )
    await play(request, run)
    spent = summed_up(run).totals.cost
    assert spent is not None
    assert 0.01 < spent <= 0.02
    await play(request, run, resume=True)
    resumed = summed_up(run).totals.cost
    assert resumed is not None
    # A resumed model knows its prompts no better than a new one, and sets aside more for them.
    assert spent <= resumed <= 0.02
    await play(request.model_copy(update={"budget": 0.04}), run, resume=True)
    raised = summed_up(run).totals.cost
    assert raised is not None
    assert resumed < raised <= 0.04
