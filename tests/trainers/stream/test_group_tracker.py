"""Judging units, whatever comes of their samples and in whatever order weights change."""

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollouthub import Outcome, Rollout, RolloutGroup, Score, Stop, SupplyError
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.rollout import AgentRef, EnvironmentRef, TaskRef
from rollouthub.task import Public
from rollouthub.trainers.stream.group_tracker import GroupTracker
from rollouthub.trainers.stream.ledger import LedgerEntry
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.stream_rules import Bounds, SupplyRules

SAMPLES = 3
Reward = float | None
"""None is a sample that broke."""
Step = tuple[Reward, ...] | str
REWARDS = st.tuples(*[st.sampled_from([None, 0.0, 1.0])] * SAMPLES)
STEPS = st.lists(st.one_of(REWARDS, REWARDS, st.sampled_from(["publish", "take"])), max_size=40)


class _Card:
    """A task as far as a tracker looks at it."""

    split = "test"
    digest = ""

    def __init__(self, name: str) -> None:
        self.public = Public(id=name, prompt="")


class World:
    """A tracker, and units that are played in no time."""

    def __init__(self, **rules: Any) -> None:
        self.entries = list[LedgerEntry]()
        self.policy = PolicyVersions(0)
        chosen = SupplyRules(**rules)
        bounds = Bounds(
            samples=SAMPLES,
            size=SAMPLES,
            least_scored=chosen.min_group or SAMPLES,
            batch=2,
            outstanding=1000,
            max_dropped=chosen.max_dropped or 1000,
        )
        self.tracker = GroupTracker(chosen, bounds, self.policy, self.entries.append)
        self._environment = EnvironmentRef(name="world", version="1", digest="")

    def play(self, rewards: tuple[Reward, ...]) -> None:
        """A unit of a new task, from beginning to end."""
        self.end(self.begin(), rewards)

    def begin(self) -> PendingGroup:
        """A unit of a new task is under way."""
        name = f"task-{self.tracker.stats.begun}"
        task = TaskRef(split="test", id=name, digest="")
        # A tracker asks a sample context for nothing but its environment's name.
        fields: dict[str, Any] = dict.fromkeys(SampleContext.__dataclass_fields__)
        fields["environment"] = self._environment
        held = SampleContext(**fields)
        items = [
            Sample(held, cast("Any", _Card(name)), task, name, f"{name}-{number}", number, 0, None)
            for number in range(SAMPLES)
        ]
        unit = PendingGroup(TaskPass(held, cast("Any", _Card(name))), items, is_group=True)
        self.tracker.begin(unit)
        return unit

    def end(self, unit: PendingGroup, rewards: tuple[Reward, ...]) -> None:
        """Its samples come to this."""
        for sample, reward in zip(unit.items, rewards, strict=True):
            record = self._record(sample, reward, unit.began)
            self.tracker.added(record)
            self.tracker.settled(sample.rollout_id)
            self.tracker.committed([record])

    def _record(self, sample: Sample, reward: Reward, version: int) -> Rollout:
        return Rollout(
            run_id="run",
            rollout_id=sample.rollout_id,
            group_id=sample.group_id,
            sample=sample.index,
            environment=self._environment,
            task=sample.task_ref,
            agent=AgentRef(name="tool_loop", version="1"),
            outcome=Outcome.ENVIRONMENT_FAILED if reward is None else Outcome.SCORED,
            stop=Stop.FINISHED,
            score=None if reward is None else Score(reward=reward),
            policy_version_min=version,
            policy_version_max=version,
        )


def run(world: World, steps: list[Step]) -> list[RolloutGroup]:
    """Do these, then take what is left."""
    groups = list[RolloutGroup | None]()
    for step in steps:
        if world.tracker.failure is not None:
            break
        match step:
            case "publish":
                world.policy.advance(world.policy.version + 1)
                world.tracker.sweep()
            case "take":
                groups.append(world.tracker.take_at_once())
            case _:
                world.play(cast("tuple[Reward, ...]", step))
    while (group := world.tracker.take_at_once()) is not None:
        groups.append(group)
    return [group for group in groups if group is not None]


@given(STEPS, st.integers(0, 2), st.integers(1, SAMPLES), st.booleans())
def test_only_fresh_groups_of_enough_scored_members_that_differ_are_handed_out(
    steps: list[Step], max_staleness: int, min_group: int, drop_constant: bool
) -> None:
    world = World(max_staleness=max_staleness, min_group=min_group, drop_constant=drop_constant)
    for group in run(world, steps):
        assert 0 <= group.staleness <= max_staleness
        assert len(group.rollouts) >= min_group
        assert len(group.rewards) == len(group.rollouts), "an unscored member has no reward, not even 0"
        assert len(group.rollouts) + len(group.lost) == SAMPLES
        assert not (drop_constant and group.is_constant)


@given(STEPS, st.booleans())
def test_every_unit_ends_once_and_is_counted_once(steps: list[Step], drop_constant: bool) -> None:
    world = World(drop_constant=drop_constant)
    groups = run(world, steps)
    world.tracker.acknowledge()
    stats = world.tracker.stats
    assert stats.begun == stats.handed_out + stats.dropped
    assert stats.handed_out == len(groups)
    assert (stats.in_flight, stats.ready, world.tracker.room.outstanding) == (0, 0, 0)
    assert len({entry.unit_id for entry in world.entries}) == len(world.entries) == stats.begun
    assert stats.requeued == stats.stale == len(world.tracker.again)


@given(st.lists(REWARDS, max_size=40), st.integers(1, 5))
def test_no_more_is_dropped_for_one_batch_than_may_be(rewards: list[tuple[Reward, ...]], most: int) -> None:
    world = World(drop_constant=True, max_dropped=most)
    dropped = 0
    for each in rewards:
        before = world.tracker.stats.dropped
        world.play(each)
        dropped += world.tracker.stats.dropped - before
        assert (world.tracker.failure is not None) == (dropped >= most)
        if world.tracker.failure is not None:
            return
        if world.tracker.take_at_once() is not None and world.tracker.stats.handed_out % 2 == 0:
            dropped = 0


@given(st.lists(REWARDS, min_size=1, max_size=40))
def test_the_oldest_is_handed_out_first(rewards: list[tuple[Reward, ...]]) -> None:
    world = World(max_staleness=None, min_group=1)
    for each in rewards:
        world.play(each)
        world.policy.advance(world.policy.version + 1)
    versions = [group.policy_version_min for group in run(world, [])]
    assert versions == sorted(version for version in versions if version is not None)


def test_constant_groups_are_let_through_only_past_the_bound() -> None:
    world = World(drop_constant=True, max_dropped=2, when_dropped="yield")
    for _ in range(4):
        world.play((1.0, 1.0, 1.0))
    assert (world.tracker.stats.constant, world.tracker.stats.ready, world.tracker.failure) == (2, 2, None)
    assert [group.is_constant for group in run(world, [])] == [True, True]
    world.play((1.0, 1.0, 1.0))
    assert world.tracker.stats.constant == 3, "with a batch full, the next is held to the rules again"


async def test_a_supply_that_failed_says_so_after_what_is_ready() -> None:
    world = World(max_staleness=None)
    world.play((1.0, 0.0, 1.0))
    world.tracker.fail(SupplyError("enough"))
    assert await world.tracker.take() is not None
    with pytest.raises(SupplyError, match="enough"):
        await world.tracker.take()
