"""How many units may be begun."""

from hypothesis import given
from hypothesis import strategies as st

from rollouthub.trainers.stream.staleness_bound import StalenessBound

BATCHES = st.integers(1, 5)
STALENESS = st.integers(0, 3)


def begin_all(room: StalenessBound) -> int:
    """Begin as many as there is room for."""
    begun = max(0, room.left)
    room.outstanding += begun
    return begun


@given(BATCHES, STALENESS, st.integers(1, 30))
def test_a_trainer_that_keeps_to_its_batch_never_meets_what_is_too_old(
    batch: int, max_staleness: int, steps: int
) -> None:
    room = StalenessBound(batch, max_staleness, most_outstanding=(max_staleness + 1) * batch)
    begun_at: list[int] = []
    for version in range(steps):
        for _ in range(batch):
            begun_at += [version] * begin_all(room)
            assert begun_at, "the trainer waits for something that is never begun"
            assert version - begun_at.pop(0) <= max_staleness
            room.outstanding -= 1
            room.handed_out += 1
        begun_at += [version] * begin_all(room)
        room.versions += 1


@given(BATCHES, STALENESS, st.lists(st.sampled_from(["take", "publish", "begin", "drop"]), max_size=60))
def test_no_more_is_outstanding_than_can_be_trained_on_in_time(
    batch: int, max_staleness: int, steps: list[str]
) -> None:
    room = StalenessBound(batch, max_staleness, most_outstanding=(max_staleness + 1) * batch)
    for step in steps:
        match step:
            case "begin":
                begin_all(room)
            case "publish":
                room.versions += 1
            case _ if room.outstanding:
                room.outstanding -= 1
                room.handed_out += step == "take"
            case _:
                pass
        assert 0 <= room.outstanding <= (max_staleness + 1) * batch


@given(BATCHES, STALENESS, st.integers(1, 50))
def test_a_trainer_that_never_publishes_is_not_starved(batch: int, max_staleness: int, wanted: int) -> None:
    room = StalenessBound(batch, max_staleness, most_outstanding=(max_staleness + 1) * batch)
    for _ in range(wanted):
        if not room.outstanding:
            assert room.left > 0 or room.lend()
        begin_all(room)
        room.outstanding -= 1
        room.handed_out += 1


def test_nothing_is_lent_while_something_is_under_way() -> None:
    room = StalenessBound(1, 0, most_outstanding=1, outstanding=1)
    assert not room.lend()
    assert room.lent == 0
