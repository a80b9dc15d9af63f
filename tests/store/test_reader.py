"""Readers: live and later, without a byte written, and the same figures whoever asks."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rollouthub import Outcome, Score
from rollouthub.errors import UnknownNameError, UsageError
from rollouthub.score import ModelCall
from rollouthub.store import open_run, open_writer
from rollouthub.store.run_lock import is_locked
from tests.store.processes import make_read_only, read_as_another, read_without_packages, start_writer
from tests.store.records import RESOLVED, record, write


def snapshot(directory: Path) -> dict[str, tuple[int, int]]:
    return {path.name: (path.stat().st_mtime_ns, path.stat().st_size) for path in directory.iterdir()}


async def test_a_reader_follows_a_live_run_by_seq(tmp_path: Path) -> None:
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        with open_run(tmp_path) as run:
            assert list(run.summaries()) == []
            await writer.add(record("a-0", 0, Outcome.MODEL_FAILED))
            await writer.add(record("b-0"))
            await writer.flush()
            first = list(run.summaries(effective=False))
            assert [summary.rollout_id for summary in first] == ["a-0", "b-0"]

            await writer.add(record("a-0", 1))
            await writer.flush()
            news = list(run.summaries(first[-1].seq, effective=False))
            assert [(news.rollout_id, news.attempt, news.effective) for news in news] == [
                ("a-0", 0, False),
                ("a-0", 1, True),
            ]
            assert list(run.summaries(news[-1].seq, effective=False)) == []
            assert run.info.status == "running"


async def test_a_reader_that_stays_sees_the_run_end_and_be_resumed(tmp_path: Path) -> None:
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(record("a-0"))
        await writer.flush()
        with open_run(tmp_path) as run:
            assert len(list(run.summaries())) == 1
    with open_run(tmp_path) as run:
        assert (run.info.status, len(list(run.rollouts()))) == ("finished", 1)
        await write(tmp_path, [record("b-0")], resume=True)
        assert (run.info.status, len(list(run.rollouts()))) == ("finished", 2)


async def test_a_reader_in_the_middle_of_a_look_does_not_hinder_the_end(tmp_path: Path) -> None:
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        for number in range(50):
            await writer.add(record(f"a-{number}"))
        await writer.flush()
        run = open_run(tmp_path)
        rollouts = run.__enter__().rollouts()
        next(rollouts)
    assert len(list(rollouts)) == 49
    run.__exit__(None, None, None)
    with open_run(tmp_path) as later:
        assert (later.info.status, len(list(later.rollouts()))) == ("finished", 50)


async def test_reading_a_finished_run_writes_nothing(tmp_path: Path) -> None:
    await write(tmp_path, [record("a-0")])
    before = snapshot(tmp_path)
    with open_run(str(tmp_path)) as run:
        assert len(list(run.rollouts())) == 1
    assert snapshot(tmp_path) == before


def test_a_killed_run_is_dead_and_reading_it_writes_nothing(tmp_path: Path) -> None:
    writer = start_writer(tmp_path, count=40)
    assert writer.stdout is not None
    try:
        shown = [writer.stdout.readline().strip() for _ in range(41)]
        assert is_locked(tmp_path)
    finally:
        writer.kill()
        writer.communicate()
    before = snapshot(tmp_path)
    assert before["run.db-wal"][1] > 0
    with open_run(tmp_path) as run:
        assert run.info.status == "dead"
        assert [summary.rollout_id for summary in run.summaries()] == shown[1:]
    assert snapshot(tmp_path) == before


async def test_another_user_reads_a_finished_run_in_a_directory_it_cannot_write(shared_path: Path) -> None:
    directory = shared_path / "run"
    await write(directory, [record("a-0")])
    directory.chmod(0o555)
    assert read_as_another(directory) == "finished 1"


def test_another_user_reads_a_live_and_then_a_killed_run(shared_path: Path) -> None:
    directory = shared_path / "run"
    writer = start_writer(directory, count=20)
    assert writer.stdout is not None
    try:
        for _ in range(21):
            writer.stdout.readline()
        directory.chmod(0o555)
        assert read_as_another(directory) == "running 20"
    finally:
        writer.kill()
        writer.communicate()
    assert read_as_another(directory) == "dead 20"


async def test_a_read_only_mount_of_a_finished_run_can_be_read(small_disk: Path) -> None:
    await write(small_disk / "run", [record("a-0")])
    make_read_only(small_disk)
    with open_run(small_disk / "run") as run:
        assert (run.info.status, len(list(run.rollouts()))) == ("finished", 1)
    with pytest.raises(UsageError, match="cannot be written"):
        await write(small_disk / "run", [], resume=True)


async def test_a_run_left_in_wal_mode_without_its_wal_can_be_read(tmp_path: Path) -> None:
    async with open_writer(tmp_path / "live", resolved=RESOLVED, given="", resume=False) as writer:
        await writer.add(record("a-0"))
        await writer.flush()
        (tmp_path / "copy").mkdir()
        for name in ("run.db", "run.db-wal"):
            shutil.copyfile(tmp_path / "live" / name, tmp_path / "copy" / name)
    before = snapshot(tmp_path / "copy")
    with open_run(tmp_path / "copy") as run:
        assert (run.info.status, len(list(run.rollouts()))) == ("dead", 1)
    assert snapshot(tmp_path / "copy") == before


async def test_a_rollout_is_found_by_its_id_or_the_beginning_of_it(tmp_path: Path) -> None:
    await write(tmp_path, [record("abc-0"), record("abd-0"), record("xyz-0"), record("xyz-01")])
    with open_run(tmp_path) as run:
        assert run.rollout("abc").rollout_id == "abc-0"
        assert run.rollout("xyz-0").rollout_id == "xyz-0"
        with pytest.raises(UsageError, match="begin with 'ab': abc-0, abd-0"):
            run.rollout("ab")
        with pytest.raises(UnknownNameError, match="did you mean 'abd-0' or 'abc-0'"):
            run.rollout("acb-0")
        with pytest.raises(UnknownNameError, match="no attempt of abc-0 is named '3'"):
            run.rollout("abc-0", 3)
        with pytest.raises(UnknownNameError):
            run.rollout("")


async def test_every_attempt_can_be_read(tmp_path: Path) -> None:
    attempts = [record("a-0", 0, Outcome.MODEL_FAILED), record("a-0", 1)]
    await write(tmp_path, attempts)
    with open_run(tmp_path) as run:
        assert run.rollout("a-0") == attempts[1]
        assert run.rollout("a-0", 0) == attempts[0]
        assert list(run.rollouts()) == attempts[1:]
        assert list(run.rollouts(effective=False)) == attempts


async def test_a_table_can_be_ordered_and_cut(tmp_path: Path) -> None:
    await write(tmp_path, [record(f"g{n}-0", score=Score(reward=float(n % 3), passed=n == 0)) for n in range(5)])
    with open_run(tmp_path) as run:
        rows = list(run.summaries(order_by="reward", descending=True, limit=2))
        assert [(row.rollout_id, row.reward, row.passed) for row in rows] == [
            ("g2-0", 2.0, False),
            ("g1-0", 1.0, False),
        ]
        with pytest.raises(UnknownNameError, match="did you mean 'reward'"):
            list(run.summaries(order_by="rewards"))


async def test_figures_count_effective_attempts_and_costs_count_all(tmp_path: Path) -> None:
    await write(
        tmp_path,
        [
            record("a-0", 0, Outcome.MODEL_FAILED, turns=()),
            record("a-0", 1),
            record("a-1", score=Score(reward=0.5, passed=False)),
            record("b-0", score=Score(reward=2.0)),
            record("c-0", 0, Outcome.AGENT_FAILED),
        ],
    )
    with open_run(tmp_path) as run:
        assert run.outcomes() == {Outcome.SCORED: 3, Outcome.AGENT_FAILED: 1}
        assert run.attempt_faults() == {"agent:AgentError": 1, "model:ModelError": 1}
        assert set(run.fault_examples()) == {"agent:AgentError", "model:ModelError"}
        assert run.reward_sums() == (3.5, 2, 1)
        totals = run.totals()
        assert (totals.attempts, totals.turns, totals.tool_calls, totals.cost) == (5, 8, 4, 4.0)
        assert totals.output_tokens == 32
        groups = {group.task_id: group for group in run.group_counts()}
        assert list(groups) == ["test/a", "test/b", "test/c"]
        a, b, c = groups.values()
        assert (a.planned, a.scored, a.passed, a.judged, a.reward_sum, a.reward_sq_sum) == (2, 2, 1, 2, 1.5, 1.25)
        assert (b.planned, b.scored, b.passed) == (2, 1, None)
        assert (c.planned, c.scored, c.passed) == (2, 0, None)


async def test_stage_quantiles_are_nearest_ranks(tmp_path: Path) -> None:
    base = record("g0-0")
    await write(
        tmp_path,
        [
            record(f"g{n}-0", timings=base.timings.model_copy(update={"setup": float(n), "total": 2.0 * n}))
            for n in range(1, 101)
        ],
    )
    with open_run(tmp_path) as run:
        stages = run.stage_quantiles((0.5, 0.95, 0.99))
    assert stages["setup"] == (50.0, 95.0, 99.0)
    assert stages["total"] == (100.0, 190.0, 198.0)
    assert stages["verify"] == (0.0, 0.0, 0.0)


async def test_a_medium_that_is_not_there_or_no_digest_is_an_unknown_name(tmp_path: Path) -> None:
    await write(tmp_path, [])
    with open_run(tmp_path) as run:
        for digest in ("sha256:" + "0" * 64, "../run.db", "sha256:../run.db"):
            with pytest.raises(UnknownNameError):
                run.media(digest)
        assert run.stage_quantiles() == {}


async def test_a_record_is_readable_where_its_environment_is_not_installed(tmp_path: Path) -> None:
    await write(tmp_path, [record("a-0")])
    assert read_without_packages(tmp_path, "a-0") == "[0, 1, 2, 3]"


async def test_a_run_that_is_deleted_while_it_is_open_says_so(tmp_path: Path) -> None:
    await write(tmp_path, [record("a-0")])
    with open_run(tmp_path) as run:
        (tmp_path / "run.db").unlink()
        with pytest.raises(UsageError, match="holds no run"):
            list(run.rollouts())


async def test_costs_are_told_apart_by_role_over_all_attempts(tmp_path: Path) -> None:
    judged = ModelCall(model="m", messages=(), response=None, cost=0.25)
    simulated = judged.model_copy(update={"role": "user", "cost": 0.125})
    free = judged.model_copy(update={"cost": None})
    score = Score(reward=1.0, judge_calls=(judged, free))
    await write(
        tmp_path,
        [
            record("a-0", 0, Outcome.MODEL_FAILED, role_calls=(simulated, judged)),
            record("a-0", 1, score=score, role_calls=(simulated,)),
        ],
    )
    with open_run(tmp_path) as run:
        assert run.spent() == {"": 2.0, "user": 0.25, "judge": 0.5}


async def test_suspect_scores_are_counted_and_found(tmp_path: Path) -> None:
    doubted = record("b-0", score=Score(reward=0.0, passed=False, suspect="the runner was replaced"))
    await write(tmp_path, [record("a-0"), doubted])
    with open_run(tmp_path) as run:
        assert run.suspects() == 1
        assert [(summary.rollout_id, summary.suspect) for summary in run.summaries()] == [("a-0", False), ("b-0", True)]


async def test_a_run_from_before_scores_could_be_suspect_opens_and_goes_on(tmp_path: Path) -> None:
    await write(tmp_path, [record("a-0")])
    with closing(sqlite3.connect(tmp_path / "run.db")) as connection:
        connection.execute("ALTER TABLE rollouts DROP COLUMN suspect")
        connection.commit()
    with open_run(tmp_path) as run:
        assert [summary.suspect for summary in run.summaries()] == [False]
        assert run.suspects() == 0
        await write(tmp_path, [record("b-0", score=Score(reward=0.0, suspect="why"))], resume=True)
        assert [summary.suspect for summary in run.summaries()] == [False, True]
