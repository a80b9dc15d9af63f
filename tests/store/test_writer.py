"""The writer: durable in batches, once each, one effective attempt a sample, and errors that arrive as they are."""

import sqlite3
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp_types import Tool

from rollouthub import Outcome, Rollout
from rollouthub.messages import digest_of
from rollouthub.store import LiveState, RunWriter, open_run, open_writer
from rollouthub.store.run_facts import Status
from tests.store.records import RESOLVED, names_in, record, write

DIGEST = digest_of(b"picture")


def live(rollout_id: str, turn: int = 0) -> LiveState:
    return LiveState(rollout_id, "arithmetic", "t", 0, 0, "model", turn, 0, 1.0)


def effective(directory: Path) -> dict[str, int]:
    with open_run(directory) as run:
        return {summary.rollout_id: summary.attempt for summary in run.summaries()}


async def test_commits_are_announced_once_they_can_be_read(tmp_path: Path) -> None:
    readable: list[int] = []

    def look(rollouts: Sequence[Rollout]) -> None:
        with open_run(tmp_path) as run:
            readable.append(len(list(run.summaries())))
        announced.extend(rollout.rollout_id for rollout in rollouts)

    announced: list[str] = []
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False, on_commit=look) as writer:
        for number in range(600):
            await writer.add(record(f"g{number}-0"))
        await writer.flush()
        assert announced == [f"g{number}-0" for number in range(600)]
        assert readable[-1] == 600


async def test_adding_an_attempt_twice_keeps_it_once(tmp_path: Path) -> None:
    announced: list[str] = []
    first = record("g-0")

    def hear(rollouts: Sequence[Rollout]) -> None:
        announced.extend(rollout.rollout_id for rollout in rollouts)

    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False, on_commit=hear) as writer:
        await writer.add(first)
        await writer.add(record("g-0", answer="again"))
        await writer.flush()
        await writer.add(first)
    with open_run(tmp_path) as run:
        assert list(run.rollouts(effective=False)) == [first]
    assert announced == ["g-0"]


async def test_exactly_one_attempt_is_effective_after_retries(tmp_path: Path) -> None:
    broken = [record("g-0", attempt, Outcome.MODEL_FAILED) for attempt in range(3)]
    await write(tmp_path, [*broken, record("g-0", 3), record("h-0")])
    assert effective(tmp_path) == {"g-0": 3, "h-0": 0}
    with open_run(tmp_path) as run:
        assert [summary.effective for summary in run.attempts("g-0")] == [False, False, False, True]
        assert run.attempt_faults() == {"model:ModelError": 3}


@pytest.mark.parametrize(
    ("first", "second", "winner"),
    [
        (record("g-0", 0), record("g-0", 1, Outcome.CANCELLED), 0),
        (record("g-0", 0), record("g-0", 1), 0),
        (record("g-0", 1), record("g-0", 0), 1),
        (record("g-0", 1, Outcome.MODEL_FAILED), record("g-0", 0, Outcome.MODEL_FAILED), 1),
        (record("g-0", 1, Outcome.MODEL_FAILED), record("g-0", 0), 0),
        (record("g-0", 0, Outcome.AGENT_FAILED), record("g-0", 1), 0),
    ],
)
async def test_a_decided_attempt_stays_effective_and_else_the_latest_is(
    tmp_path: Path, first: Rollout, second: Rollout, winner: int
) -> None:
    await write(tmp_path, [first, second])
    assert effective(tmp_path) == {"g-0": winner}


async def test_resuming_knows_what_is_done_and_how_often_the_rest_was_tried(tmp_path: Path) -> None:
    await write(
        tmp_path,
        [
            record("a-0"),
            record("b-0", 0, Outcome.AGENT_FAILED),
            record("c-0", 0, Outcome.MODEL_FAILED),
            record("c-0", 1, Outcome.CANCELLED),
            record("d-0", 0, Outcome.VERIFIER_FAILED),
            record("d-0", 1),
        ],
    )
    async with open_writer(tmp_path, resolved={"other": 1}, given="", resume=True) as writer:
        assert writer.resumed
        assert writer.stored_resolved == RESOLVED
        assert writer.done_count == 3
        assert [name for name in "abcdx" if writer.is_done(f"{name}-0")] == ["a", "b", "d"]
        assert [writer.attempts(f"{name}-0") for name in "abcdx"] == [1, 1, 2, 2, 0]
        await writer.add(record("c-0", 2))
    assert effective(tmp_path)["c-0"] == 2


async def test_tools_plan_and_media_are_kept(tmp_path: Path) -> None:
    tools = [Tool(name="calculate", description="Sums.", input_schema={"type": "object", "properties": {}})]
    async with open_writer(tmp_path, resolved=RESOLVED, given="environments = []", resume=False) as writer:
        writer.add_tools("sha256:t", tools)
        writer.add_tools("sha256:t", tools)
        writer.set_plan(12)
        await writer.add(record("g-0"), {DIGEST: b"picture"})
        await writer.add(record("g-1"), {DIGEST: b"picture"})
        await writer.flush()
        with open_run(tmp_path) as run:
            assert run.tools("sha256:t") == tools
            assert run.info.planned == 12
            assert run.media(DIGEST) == b"picture"
    assert [path.name for path in (tmp_path / "media").iterdir()] == [DIGEST.removeprefix("sha256:")]
    assert (tmp_path / "run.toml").read_text() == "environments = []"


async def test_live_states_are_coalesced_and_go_when_the_record_is_committed(tmp_path: Path) -> None:
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        for turn in range(50):
            writer.set_live("g-0", partial(live, "g-0", turn))
        writer.set_live("h-0", partial(live, "h-0"))
        await writer.add(record("other-0"))
        await writer.flush()
        with open_run(tmp_path) as run:
            assert run.live() == [live("g-0", 49), live("h-0")]
            writer.set_live("g-0", partial(live, "g-0", 50))
            await writer.add(record("g-0"))
            await writer.flush()
            assert run.live() == [live("h-0")]
    with open_run(tmp_path) as run:
        assert run.live() == []


@pytest.mark.parametrize("status", ["finished", "interrupted", "failed"])
async def test_a_run_ends_with_the_status_it_was_given(tmp_path: Path, status: Status) -> None:
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_status(status)
        with open_run(tmp_path) as run:
            assert run.info.status == "running"
            assert run.info.finished_at is None
    with open_run(tmp_path) as run:
        assert run.info.status == status
        assert run.info.finished_at is not None


async def test_an_error_in_the_block_arrives_as_it_is_and_what_was_added_is_kept(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
            writer.set_status("interrupted")
            await writer.add(record("g-0"))
            raise KeyError("mine")
    assert effective(tmp_path) == {"g-0": 0}
    with open_run(tmp_path) as run:
        assert run.info.status == "failed"


async def test_cancellation_keeps_what_was_added(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
            for number in range(400):
                await writer.add(record(f"g{number}-0"))
            scope.cancel()
            await anyio.sleep_forever()
    assert len(effective(tmp_path)) == 400
    with open_run(tmp_path) as run:
        assert run.info.status == "interrupted"


async def test_a_clean_end_leaves_one_database_file_without_a_wal(tmp_path: Path) -> None:
    await write(tmp_path, [record("g-0")])
    assert names_in(tmp_path) == [
        "logs",
        "media",
        "resolved.json",
        "run.db",
        "run.lock",
        "run.toml",
    ]
    connection = sqlite3.connect(tmp_path / "run.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()


async def test_a_slow_disk_holds_the_run_back(tmp_path: Path) -> None:
    async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer:
        blocker = sqlite3.connect(tmp_path / "run.db", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        added = await _add_until_held_back(writer)
        blocker.execute("ROLLBACK")
        blocker.close()
        await writer.flush()
        assert 1024 <= added < 2000
    assert len(effective(tmp_path)) >= added


async def _add_until_held_back(writer: RunWriter) -> int:
    added = 0

    async def add() -> None:
        nonlocal added
        for number in range(10_000):
            await writer.add(record(f"g{number}-0", turns=()))
            added += 1

    async with anyio.create_task_group() as adding:
        adding.start_soon(add)
        await anyio.wait_all_tasks_blocked()
        adding.cancel_scope.cancel()
    return added


async def test_commits_do_not_wait_for_threads_that_others_hold(tmp_path: Path) -> None:
    gate = threading.Event()
    async with (
        open_writer(tmp_path, resolved=RESOLVED, given="", resume=False) as writer,
        anyio.create_task_group() as blocking,
    ):
        for _ in range(int(anyio.to_thread.current_default_thread_limiter().total_tokens)):
            blocking.start_soon(anyio.to_thread.run_sync, gate.wait)
        await anyio.wait_all_tasks_blocked()
        try:
            await writer.add(record("g-0"))
            with anyio.fail_after(5):
                await writer.flush()
        finally:
            gate.set()
    assert effective(tmp_path) == {"g-0": 0}


async def test_a_bug_in_a_listener_ends_the_run_at_once(tmp_path: Path) -> None:
    def trip(rollouts: Sequence[Rollout]) -> None:
        raise KeyError("a bug")

    with anyio.fail_after(5), pytest.raises(BaseExceptionGroup) as caught:
        async with open_writer(tmp_path, resolved=RESOLVED, given="", resume=False, on_commit=trip) as writer:
            with anyio.CancelScope(shield=True):
                for number in range(10_000):
                    await writer.add(record(f"g{number}-0", turns=()))
    assert caught.group_contains(KeyError)
