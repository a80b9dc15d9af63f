"""The gate: no sixty seconds with more than the limits, in order, and no wait longer than needed."""

from dataclasses import dataclass

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollouthub.models.router.gate import WINDOW_SECONDS, Begun, RateLimiter
from tests.models.router.virtual_time import VIRTUAL, VirtualLoop


@pytest.fixture
def anyio_backend() -> object:
    return VIRTUAL


def gate(connections: int = 1000, requests: int | None = None, tokens: int | None = None) -> RateLimiter:
    return RateLimiter(connections, requests, tokens, anyio.current_time)


@dataclass(frozen=True)
class Arrival:
    """A try of the property test."""

    pause: float
    reserved: int
    used: float
    """Share of what is reserved; None in its place leaves the reservation."""
    seconds: float
    gives_up: float | None
    fails: bool


ARRIVALS = st.lists(
    st.builds(
        Arrival,
        pause=st.sampled_from([0.0, 0.0, 0.0, 0.25, 3.0, 20.0, 59.9, 60.0, 61.0]),
        reserved=st.integers(0, 50),
        used=st.floats(0, 1),
        seconds=st.sampled_from([0.0, 0.5, 10.0, 60.0, 130.0]),
        gives_up=st.one_of(st.none(), st.sampled_from([0.0, 1.0, 45.0])),
        fails=st.booleans(),
    ),
    max_size=40,
)


async def play(arrivals: list[Arrival], requests: int, tokens: int) -> list[tuple[Begun, int]]:
    """Let tries arrive; those begun, in order of arrival, with that place."""
    door, begun = gate(8, requests, tokens), list[tuple[Begun, int]]()

    async def one(place: int, arrival: Arrival) -> None:
        with anyio.move_on_after(float("inf") if arrival.gives_up is None else arrival.gives_up):
            entry = door.try_enter(arrival.reserved) or await door.enter(arrival.reserved)
            begun.append((entry, place))
            assert door.in_flight <= 8
            try:
                await anyio.sleep(arrival.seconds)
            finally:
                door.leave(entry, None if arrival.fails else int(arrival.reserved * arrival.used))

    async with anyio.create_task_group() as tries:
        for place, arrival in enumerate(arrivals):
            await anyio.sleep(arrival.pause)
            tries.start_soon(one, place, arrival)
            await anyio.wait_all_tasks_blocked()
    assert (door.in_flight, door.waiting) == (0, 0)
    return begun


@settings(max_examples=150, deadline=None)
@given(ARRIVALS, st.integers(1, 6), st.integers(50, 120))
def test_in_no_sixty_seconds_more_begins_than_the_limits_allow(
    arrivals: list[Arrival], requests: int, tokens: int
) -> None:
    begun = anyio.run(play, arrivals, requests, tokens, backend_options={"loop_factory": VirtualLoop})
    assert [place for _, place in begun] == sorted(place for _, place in begun)
    for first, (entry, _) in enumerate(begun):
        window = [other for other, _ in begun[first:] if other.at - entry.at < WINDOW_SECONDS]
        assert len(window) <= requests
        assert sum(other.tokens for other in window) <= tokens
    if all(arrival.gives_up is None for arrival in arrivals):
        assert len(begun) == len(arrivals)


async def test_the_window_slides_and_waits_are_no_longer_than_needed() -> None:
    door, begun = gate(requests=3), list[float]()
    for _ in range(9):
        door.leave(await door.enter(0), 0)
        begun.append(anyio.current_time())
        await anyio.sleep(1)
    assert begun == [0, 1, 2, 60, 61, 62, 120, 121, 122]


async def test_tokens_given_back_let_the_next_begin_at_once() -> None:
    door = gate(tokens=100)
    first = door.try_enter(90)
    assert first is not None
    assert door.try_enter(20) is None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(door.enter, 20)
        await anyio.sleep(5)
        door.leave(first, 30)
    assert anyio.current_time() == 5


async def test_tokens_beyond_the_reservation_hold_up_the_next_until_the_window_has_passed_them() -> None:
    door = gate(tokens=100)
    door.leave(await door.enter(10), 140)
    door.leave(await door.enter(10), 10)
    assert anyio.current_time() == 60


async def test_a_large_try_is_not_overtaken_for_ever_by_small_ones() -> None:
    door, went = gate(tokens=100), list[int]()

    async def enter(tokens: int) -> None:
        door.leave(await door.enter(tokens), tokens)
        went.append(tokens)

    async with anyio.create_task_group() as tasks:
        for tokens in (60, 100, 10, 10):
            tasks.start_soon(enter, tokens)
            await anyio.wait_all_tasks_blocked()
    assert went == [60, 100, 10, 10]


async def test_what_is_withdrawn_does_not_count() -> None:
    door = gate(requests=1, tokens=10)
    begun = door.try_enter(10)
    assert begun is not None
    door.withdraw(begun)
    assert door.try_enter(10) is not None
    assert door.in_flight == 1


async def test_no_more_are_in_flight_than_there_are_connections() -> None:
    door = gate(connections=2)
    first, second = door.try_enter(0), door.try_enter(0)
    assert first is not None
    assert second is not None
    assert door.try_enter(0) is None
    door.leave(first, None)
    assert door.try_enter(0) is not None
