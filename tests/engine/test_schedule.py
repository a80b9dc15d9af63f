"""Which attempt is next, decided without a clock of its own."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rollouthub import Outcome, Rollout
from rollouthub.bench.schedule import BROKEN, SCORED, Simulation, simulated_items
from rollouthub.engine.run_request import Retries
from rollouthub.engine.schedule import MOST_LOSSES, MOST_UNDECIDED, QueuedAttempt, Schedule
from tests.store.records import record


def schedule_of(count: int, retries: Retries | None = None) -> Schedule:
    schedule = Schedule(lambda rollout_id: 0, retries or Retries(), jitter=lambda: 1.0)
    for sample in simulated_items(count):
        schedule.add(sample)
    return schedule


def taken(schedule: Schedule, now: float = 0.0) -> QueuedAttempt:
    work = schedule.take(now)
    assert work is not None
    return work


def test_what_broke_comes_back_after_a_pause_that_doubles() -> None:
    schedule = schedule_of(1)
    work = taken(schedule)
    schedule.ended(work, BROKEN, 10.0)
    assert schedule.take(10.2) is None
    assert schedule.due_in(10.0) == 0.25
    again = taken(schedule, 10.25)
    assert (again.attempt, again.queued) == (1, 0.25)
    schedule.ended(again, BROKEN, 20.0)
    assert schedule.due_in(20.0) == 0.5
    schedule.ended(taken(schedule, 20.5), SCORED, 21.0)
    assert schedule.is_idle


def test_attempts_end() -> None:
    schedule = schedule_of(1, Retries(infrastructure=1))
    schedule.ended(taken(schedule), BROKEN, 0.0)
    schedule.ended(taken(schedule, 1.0), BROKEN, 1.0)
    assert schedule.is_idle
    assert schedule.retried == 1


def test_what_broke_goes_before_what_is_new() -> None:
    schedule = schedule_of(3)
    first = taken(schedule)
    schedule.ended(first, BROKEN, 0.0)
    assert taken(schedule, 5.0).key == (first.sample.rollout_id, 1)


def test_who_is_lost_twice_is_played_alone_and_then_set_aside() -> None:
    schedule = schedule_of(1)
    work = taken(schedule)
    assert schedule.lost(work, 0.0)
    assert not schedule.has_alone
    assert schedule.lost(taken(schedule), 0.0)
    assert schedule.take(100.0) is None
    alone = schedule.take_alone(100.0)
    assert alone is not None
    assert alone.is_alone
    assert not schedule.lost(alone, 100.0)
    assert schedule.is_idle
    assert alone.losses == MOST_LOSSES


def test_a_suspect_whose_player_lives_is_acquitted() -> None:
    schedule = schedule_of(1)
    schedule.lost(taken(schedule), 0.0)
    schedule.lost(taken(schedule), 0.0)
    alone = schedule.take_alone(0.0)
    assert alone is not None
    schedule.ended(alone, BROKEN, 0.0)
    again = taken(schedule, 9.0)
    assert not again.is_alone
    assert schedule.lost(again, 9.0)


def test_a_lost_worker_is_no_fault_of_the_sample() -> None:
    schedule = schedule_of(1, Retries(infrastructure=1))
    work = taken(schedule)
    schedule.lost(work, 0.0)
    schedule.ended(taken(schedule), BROKEN, 0.0)
    schedule.ended(taken(schedule, 9.0), SCORED, 9.0)
    assert schedule.is_idle


def test_without_retries_nothing_is_tried_again() -> None:
    schedule = schedule_of(1, Retries(infrastructure=0))
    assert not schedule.lost(taken(schedule), 0.0)
    assert schedule.is_idle


@pytest.mark.parametrize("is_retry", [False, True])
def test_what_was_not_begun_is_taken_again(is_retry: bool) -> None:
    schedule = schedule_of(2)
    work = taken(schedule)
    if is_retry:
        schedule.ended(work, BROKEN, 0.0)
        work = taken(schedule, 1.0)
    schedule.give_back(work)
    again = taken(schedule, 1.0)
    assert again.key == work.key
    assert schedule.waiting == 1


def test_a_simulated_run_sets_only_the_poison_aside() -> None:
    row = Simulation(60_000).run()
    assert row.set_aside == 1
    assert row.lost_workers > 2
    assert row.retried > 500


def test_what_ended_without_a_result_is_tried_again_where_somebody_asks_with_all_its_tries() -> None:
    schedule = schedule_of(1, Retries(infrastructure=1))
    work = taken(schedule)
    name = work.sample.rollout_id
    assert not schedule.retry(name, 0.0)
    schedule.ended(work, BROKEN, 0.0)
    assert schedule.waits(name)
    assert schedule.undecided == ()
    schedule.ended(taken(schedule, 1.0), BROKEN, 1.0)
    assert (schedule.is_idle, schedule.undecided) == (True, (name,))
    assert schedule.retry(name, 5.0)
    assert not schedule.retry(name, 5.0)
    assert (schedule.is_idle, schedule.undecided, schedule.waits(name)) == (False, (), True)
    again = taken(schedule, 6.0)
    assert (again.key, again.queued) == ((name, 2), 1.0)
    schedule.give_back(again)
    again = taken(schedule, 6.0)
    assert again.key == (name, 2)
    schedule.ended(again, BROKEN, 7.0)
    schedule.ended(taken(schedule, 90.0), SCORED, 91.0)
    assert (schedule.is_idle, schedule.undecided, schedule.retried) == (True, (), 3)


@pytest.mark.parametrize("result", [SCORED, record("r-0", outcome=Outcome.AGENT_FAILED)])
def test_a_result_is_not_tried_again(result: Rollout) -> None:
    schedule = schedule_of(1)
    work = taken(schedule)
    schedule.ended(work, result, 0.0)
    assert not schedule.retry(work.sample.rollout_id, 0.0)
    assert schedule.is_idle


def test_who_took_its_players_along_is_tried_again_alone() -> None:
    schedule = schedule_of(1)
    schedule.lost(taken(schedule), 0.0)
    schedule.lost(taken(schedule), 0.0)
    alone = schedule.take_alone(0.0)
    assert alone is not None
    assert not schedule.lost(alone, 0.0)
    assert schedule.retry(alone.sample.rollout_id, 1.0)
    assert schedule.take(9.0) is None
    assert schedule.take_alone(9.0) is alone
    assert not schedule.lost(alone, 9.0)


def test_only_the_latest_that_ended_without_a_result_are_remembered() -> None:
    schedule = schedule_of(MOST_UNDECIDED + 1, Retries(infrastructure=0))
    names = list[str]()
    while (work := schedule.take(0.0)) is not None:
        names.append(work.sample.rollout_id)
        schedule.ended(work, BROKEN, 0.0)
    assert schedule.undecided == tuple(names[1:])
    assert not schedule.retry(names[0], 0.0)


class Steps(RuleBasedStateMachine):
    """Samples are read, played, broken, lost, given back and asked for again, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule(lambda rollout_id: 0, Retries(infrastructure=1, verifier=0), jitter=lambda: 1.0)
        self.items = simulated_items(1000)
        self.now, self.count = 0.0, 0
        self.playing, self.scored = list[QueuedAttempt](), set[str]()
        self.attempts = dict[str, list[int]]()

    @rule()
    def read(self) -> None:
        self.schedule.add(next(self.items))
        self.count += 1

    @rule(seconds=st.floats(0, 20), alone=st.booleans())
    def take(self, seconds: float, alone: bool) -> None:
        self.now += seconds
        work = self.schedule.take_alone(self.now) if alone else self.schedule.take(self.now)
        if work is not None:
            assert work.sample.rollout_id not in {other.sample.rollout_id for other in self.playing} | self.scored
            self.playing.append(work)

    @precondition(lambda self: self.playing)
    @rule(place=st.integers(0, 99), how=st.sampled_from(["scored", "broken", "cancelled", "lost", "back"]))
    def end(self, place: int, how: str) -> None:
        work = self.playing.pop(place % len(self.playing))
        name = work.sample.rollout_id
        if how == "back":
            self.schedule.give_back(work)
            return
        self.attempts.setdefault(name, []).append(work.attempt)
        if how == "lost":
            self.schedule.lost(work, self.now)
            return
        self.schedule.ended(work, {"scored": SCORED, "broken": BROKEN, "cancelled": CANCELLED}[how], self.now)
        if how == "scored":
            self.scored.add(name)

    @precondition(lambda self: self.schedule.undecided)
    @rule(place=st.integers(0, 99))
    def retry(self, place: int) -> None:
        names = self.schedule.undecided
        assert self.schedule.retry(names[place % len(names)], self.now)

    @invariant()
    def every_sample_is_somewhere_once(self) -> None:
        schedule = self.schedule
        assert schedule.in_flight == len(self.playing)
        assert schedule.in_flight + schedule.waiting + len(schedule.undecided) + len(self.scored) == self.count
        assert not self.scored & set(schedule.undecided)
        assert not any(schedule.waits(name) for name in schedule.undecided)

    @invariant()
    def attempts_are_numbered_one_by_one(self) -> None:
        assert all(numbers == list(range(len(numbers))) for numbers in self.attempts.values())


CANCELLED = Rollout.model_construct(outcome=Outcome.CANCELLED, score=None, faults=())
Steps.TestCase.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
test_whatever_happens_no_sample_is_lost_or_played_twice_at_once = Steps.TestCase
