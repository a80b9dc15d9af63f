"""Which attempt is next, decided without a clock of its own."""

import pytest

from envhub.engine.request import Retries
from envhub.engine.schedule import MOST_LOSSES, Schedule, Work
from envhub.observe.schedule import BROKEN, SCORED, Simulation, simulated_items


def schedule_of(count: int, retries: Retries | None = None) -> Schedule:
    schedule = Schedule(lambda rollout_id: 0, retries or Retries(), jitter=lambda: 1.0)
    for item in simulated_items(count):
        schedule.add(item)
    return schedule


def taken(schedule: Schedule, now: float = 0.0) -> Work:
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
    assert taken(schedule, 5.0).key == (first.item.rollout_id, 1)


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
