"""A feed follows a run: what is kept up to date is what reading everything anew would give."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub import Outcome, Rollout, Score, Stop
from rollouthub.errors import StoreError
from rollouthub.live.follow import RolloutList, RunFeed
from rollouthub.live.follow.attempt_columns import LATE
from rollouthub.live.follow.group_tables import Order
from rollouthub.rollout import EnvironmentRef, TaskRef, Timings
from rollouthub.statistics import summarise_groups
from rollouthub.store import LiveState, open_writer
from rollouthub.store.run_directories import DATABASE
from tests.live.follow.scratch import check, rows_of, sorted_rows
from tests.store.records import RESOLVED, conversation, record, write

TURNS = conversation(1)


@dataclass(frozen=True)
class Drawn:
    """What is random about a record."""

    sample: int
    outcome: Outcome
    reward: float
    passed: bool | None
    seconds: float
    at: float


drawn = st.builds(
    Drawn,
    sample=st.integers(0, 5),
    outcome=st.sampled_from([Outcome.SCORED, Outcome.SCORED, Outcome.MODEL_FAILED, Outcome.AGENT_FAILED]),
    reward=st.sampled_from([0.0, 1.0, 0.5]) | st.integers(-(10**6), 10**6).map(lambda number: number / 1000),
    passed=st.none() | st.booleans(),
    seconds=st.floats(0, 1e5),
    at=st.floats(1.7e9, 1.7e9 + 1e6),
)
sequences = st.lists(st.lists(drawn, max_size=4), min_size=1, max_size=5)
orders = st.tuples(
    st.sampled_from(
        ["seq", "reward", "task_id", "effective", "rollout_id", "passed", "seconds", "setup_seconds", "turns", "fault"]
    ),
    st.booleans(),
    st.booleans(),
)


def records(batch: Sequence[Drawn], attempts: dict[int, int]) -> list[Rollout]:
    """Records of what was drawn; every further record of a sample is its next attempt."""
    made: list[Rollout] = []
    for one in batch:
        attempt = attempts[one.sample] = attempts.get(one.sample, -1) + 1
        group = one.sample // 2
        fields: dict[str, Any] = {
            "turns": TURNS[: one.sample % 2],
            "timings": Timings(setup=one.seconds / 3, agent=one.seconds / 2, total=one.seconds),
            "started_at": one.at,
            "environment": EnvironmentRef(name=f"env{group % 2}", version="1", digest="sha256:0"),
            "task": TaskRef(split="test", id=f"task{group}", digest="sha256:0"),
            "stop": Stop.TURN_LIMIT if one.passed else Stop.FINISHED,
        }
        if one.outcome is Outcome.SCORED:
            suspect = "it replaced the tool" if one.sample == 1 else None
            fields["score"] = Score(reward=one.reward, passed=one.passed, suspect=suspect)
        made.append(record(f"g{group}-{one.sample % 2}", attempt, one.outcome, **fields))
    return made


def shown(found: RolloutList, feed: RunFeed) -> list[Any]:
    return [feed.columns.summary(place) for place in found.page(0, len(found))]


@settings(max_examples=20)
@given(batches=sequences, order=orders, reads_stages=st.booleans())
def test_what_is_kept_up_to_date_is_what_reading_anew_gives(
    batches: list[list[Drawn]], order: tuple[str, bool, bool], reads_stages: bool
) -> None:
    column, descending, effective = order

    async def follow(folder: Path) -> None:
        attempts: dict[int, int] = {}
        with RunFeed(folder, reads_stages=reads_stages) as feed:
            found: list[RolloutList] = []
            for batch in batches:
                async with open_writer(folder, resolved=RESOLVED, given="", resume=True) as writer:
                    for rollout in records(batch, attempts):
                        await writer.add(rollout)
                    await writer.flush()
                    feed.refresh()
                    if not found:
                        found = [
                            feed.rollouts(column, descending=descending, effective=effective),
                            feed.rollouts(column, descending=descending, effective=effective, where="reward < 0.75"),
                        ]
                    check(feed, folder)
                rows = [row for row in rows_of(folder) if row.effective or not effective]
                below = [row for row in rows if row.reward is not None and row.reward < 0.75]
                for view, wanted in zip(found, (rows, below), strict=True):
                    view.catch_up()
                    assert shown(view, feed) == sorted_rows(wanted, column, descending=descending)
                    assert [view.position(place) for place in view.page(0, len(view))] == list(range(len(view)))

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(follow, Path(folder) / "run")


async def test_a_live_run_is_followed_while_it_is_written(tmp_path: Path) -> None:
    state = LiveState("b-0", "arithmetic", "test/b", 0, 0, "model", 1, 9, 100.0)
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_plan(4)
        await writer.add(record("a-0"))
        writer.set_live("b-0", lambda: state)
        await writer.flush()
        with RunFeed(tmp_path / "run") as feed:
            assert feed.refresh()
            assert (feed.info.status, feed.info.planned, len(feed.columns)) == ("running", 4, 1)
            await writer.add(record("c-0"))
            await writer.flush()
            assert feed.refresh()
            assert not feed.refresh()
            progress = feed.progress()
            assert (progress.done, progress.planned, progress.share) == (2, 4, 0.5)


async def test_seconds_of_stages_are_read_when_they_are_asked_for(tmp_path: Path) -> None:
    with RunFeed(tmp_path / "run", reads_stages=False) as feed:
        for at, name in enumerate(("a-0", "b-0", "c-0")):
            async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=at > 0) as writer:
                await writer.add(record(name, timings=Timings(setup=float(at), total=9.0)))
            feed.refresh()
            if at < 1:
                assert not set(LATE) & feed.columns.numbers.keys()  # nothing that a page shows needs them
            else:  # the first time all at once, then with the rows
                assert list(feed.columns.numbers["setup_seconds"]) == [float(each) for each in range(at + 1)]
        with pytest.raises(KeyError):
            feed.columns.numbers["no_seconds"]


async def test_a_run_that_was_replaced_before_its_stages_were_read_is_read_again(tmp_path: Path) -> None:
    await write(tmp_path / "two", [record("a-0"), record("b-0")])
    await write(tmp_path / "one", [record("c-0", timings=Timings(setup=3.0, total=9.0))])
    with RunFeed(tmp_path / "two", reads_stages=False) as feed:
        feed.refresh()
        shutil.copy(tmp_path / "one" / DATABASE, tmp_path / "two" / DATABASE)
        with pytest.raises(StoreError, match="replaced"):
            feed.columns.value("setup_seconds", 0)
        feed.refresh()
        assert feed.columns.value("setup_seconds", 0) == 3.0


async def test_figures_over_tasks_are_the_same_where_tasks_that_are_alike_are_taken_together(tmp_path: Path) -> None:
    rewards = {"a": (1, 0), "b": (0, 1), "c": (1, 1), "d": (0,)}
    made = [
        record(f"{task}-{at}", score=Score(reward=float(reward), passed=bool(reward)))
        for task, found in rewards.items()
        for at, reward in enumerate(found)
    ]
    await write(tmp_path / "run", made)
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        together = feed.groups.alike()
        assert sorted(group.alike for group in together) == [1, 1, 2]
        one, other = (
            summarise_groups(each).overall for each in (together, [line.counts for line in feed.groups.all()])
        )
        assert (one.tasks, one.planned, one.scored, one.constant_groups) == (4, 7, 7, 1)
        for mine, whole in zip(one.at_k, other.at_k, strict=True):
            assert mine.pass_at_k is not None and whole.pass_at_k is not None
            assert astuple(mine.pass_at_k) == pytest.approx(astuple(whole.pass_at_k))
            assert astuple(mine.avg_at_k) == pytest.approx(astuple(whole.avg_at_k))


async def test_what_is_in_flight_comes_round(tmp_path: Path) -> None:
    with RunFeed(tmp_path / "run") as feed:
        assert feed.next_live() is None
        feed.live = [LiveState(name, "e", "t", 0, 0, "tool", 1, 1, 0.0) for name in ("a-0", "b-0")]
        following = (feed.next_live(), feed.next_live("a-0"), feed.next_live("b-0"))
        assert [state.rollout_id for state in following if state] == ["a-0", "b-0", "a-0"]


async def test_a_rate_and_an_eta_come_from_the_last_minute(tmp_path: Path) -> None:
    async with open_writer(tmp_path / "run", resolved=RESOLVED, given="", resume=False) as writer:
        writer.set_plan(40)
        await writer.flush()
        with RunFeed(tmp_path / "run") as feed:
            feed.refresh()
            assert feed.progress().rate is None
            began = feed.info.created_at
            for index in range(20):
                await writer.add(record(f"g{index}-0", started_at=began + 97 + index / 10))
            await writer.flush()
            feed.refresh()
            progress = feed.progress(began + 120)
            assert (progress.rate, progress.eta_seconds, progress.seconds) == (20 / 60, 60.0, 120.0)
            assert feed.progress(began + 1000).eta_seconds is None  # nothing has finished for long


async def test_a_run_that_ended_says_how_fast_it_was(tmp_path: Path) -> None:
    await write(tmp_path / "run", [record(f"g{index}-0", started_at=100.0 + index) for index in range(8)])
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        progress = feed.progress()
        assert (progress.status, progress.seconds, progress.rate, progress.eta_seconds) == ("finished", 10.0, 0.8, None)


async def test_the_timeline_has_a_bounded_number_of_points(tmp_path: Path) -> None:
    at = [2000.0 * index for index in range(700)]
    await write(tmp_path / "run", [record(f"g{index}-0", turns=(), started_at=when) for index, when in enumerate(at)])
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        assert 100 < len(feed.timeline.points) <= 240
        check(feed, tmp_path / "run")


async def test_errors_and_extremes_are_found_in_the_order_shown(tmp_path: Path) -> None:
    rewards: list[float | None] = [0.5, None, 1.0, 0.0, None]
    made = [
        record(f"g{number}-0", score=Score(reward=reward), turns=())
        if reward is not None
        else record(f"g{number}-0", 0, Outcome.AGENT_FAILED, turns=())
        for number, reward in enumerate(rewards)
    ]
    await write(tmp_path / "run", made)
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        found = feed.rollouts("seq")
        assert (found.best(), found.worst()) == (2, 3)
        assert [found.next_error(), found.next_error(1), found.next_error(4)] == [1, 4, 1]
        assert found.next_error(1, backwards=True) == 4
        by_reward = feed.rollouts("reward", descending=True)
        assert [feed.columns.value("reward", place) for place in by_reward.page(0, 9)] == [1.0, 0.5, 0.0, None, None]
        assert feed.rollouts(where="passed").best() is None
        assert feed.rollouts(where="passed").next_error() is None


async def test_letters_in_order_find_a_rollout(tmp_path: Path) -> None:
    tasks = ("algebra/17", "geometry/4", "algebra/22")
    made = [
        record(f"g{number}-0", turns=(), task=TaskRef(split="test", id=task, digest="sha256:0"))
        for number, task in enumerate(tasks)
    ]
    await write(tmp_path / "run", made)
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        assert feed.rollouts(search="ALG2").page(0, 9) == [2]
        assert feed.rollouts(search="g1-").page(0, 9) == [1]
        assert feed.rollouts(search="zzz").page(0, 9) == []


async def test_groups_are_sorted_by_what_they_came_to(tmp_path: Path) -> None:
    rewards = {"a": (0.0, 1.0), "b": (0.5, 0.75), "c": (None, 0.25), "d": (None, None)}
    made = [
        record(f"{group}-{sample}", score=Score(reward=reward, passed=reward > 0.6), turns=())
        if reward is not None
        else record(f"{group}-{sample}", 0, Outcome.MODEL_FAILED, turns=())
        for group, samples in rewards.items()
        for sample, reward in enumerate(samples)
    ]
    await write(tmp_path / "run", made)
    with RunFeed(tmp_path / "run") as feed:
        feed.refresh()
        groups = feed.groups
        names = {by: "".join(groups.line(place).name for place in groups.places(by)) for by in get_args(Order)}
        assert names == {
            "met": "abcd",
            "rollouts": "abcd",
            "mean_reward": "cabd",
            "pass_rate": "cabd",
            "deviation": "bacd",
        }
        assert [groups.line(place).name for place in groups.places("mean_reward", descending=True)] == list("bacd")
        found = groups.find("b")
        assert found is not None
        assert (found.task_id, found.mean_reward, found.pass_rate, found.deviation) == (
            "test/b",
            0.625,
            0.5,
            pytest.approx(0.1768, abs=1e-4),
        )
        assert groups.find("z") is None
