"""The limit of one server, in simulated time: what cuts it, what does not, and how soon it is back."""

import heapq
from collections.abc import Callable
from itertools import count

from rollouthub.models.router.limiter import TICK_SECONDS, Limiter

CAP = 256


class World:
    """Callers that always want more, and a server whose ways may be changed."""

    def __init__(self, demand: int = 200) -> None:
        self.limiter = Limiter(CAP, 0.0)
        self.demand, self.now, self.in_flight = demand, 0.0, 0
        self.seconds: Callable[[int], float | None] = lambda tokens: 0.2
        """How long an answer of so many tokens takes; None is for ever."""
        self.refuses: Callable[[int], float | None] = lambda number: -1.0
        """What `Retry-After` says to a call; negative where it is taken."""
        self.tokens = 100
        self.lag = 0.0
        """What our own event loop adds: to each beat, and four times to each call."""
        self.begun: list[float] = []
        self.seen: list[int] = []
        """The limit after every beat."""
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._at(TICK_SECONDS, self._tick)

    def _at(self, when: float, event: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), event))

    def run(self, seconds: float) -> None:
        """Let so many seconds pass."""
        end = self.now + seconds
        self._fill()
        while self._events[0][0] <= end:
            self.now, _, event = heapq.heappop(self._events)
            event()
            self._fill()
        self.now = end

    def _tick(self) -> None:
        self.limiter.tick(self.now, self.in_flight, self.lag)
        self.seen.append(self.limiter.limit)
        self._at(self.now + TICK_SECONDS + self.lag, self._tick)

    def _fill(self) -> None:
        while self.in_flight < min(self.demand, self.limiter.admits):
            self._begin()

    def _begin(self) -> None:
        self.in_flight += 1
        self.limiter.peak = max(self.limiter.peak, self.in_flight)
        self.begun.append(self.now)
        after = self.refuses(len(self.begun))
        if after is None or after >= 0:
            self._at(self.now + 0.02, lambda: self._refused(after))
        elif (seconds := self.seconds(self.tokens)) is not None:
            seconds += 4 * self.lag
            tokens = self.tokens
            self._at(self.now + seconds, lambda: self._answered(seconds, tokens))

    def _answered(self, seconds: float, tokens: int) -> None:
        self.in_flight -= 1
        self.limiter.answered(seconds, tokens)

    def _refused(self, after: float | None) -> None:
        self.in_flight -= 1
        self.limiter.refused(self.now, self.in_flight, after)


def test_a_server_that_answers_well_gets_all_there_is() -> None:
    world = World()
    world.run(30)
    assert set(world.seen) == {CAP}


def test_a_storm_of_refusals_holds_calls_back_at_once_and_is_over_within_seconds() -> None:
    world = World()
    world.run(10)
    world.refuses = lambda number: None
    before = len(world.begun)
    world.run(10)
    assert world.limiter.limit <= CAP // 8
    # The first wave, and then a few at the end of each pause.
    assert len(world.begun) - before < 2 * CAP
    world.refuses = lambda number: -1.0
    world.run(20)
    assert world.limiter.limit == CAP
    assert world.limiter.is_open


def test_a_pause_lasts_as_long_as_the_server_asks_but_not_for_ever() -> None:
    world = World()
    world.run(10)
    world.refuses = lambda number: 3600.0
    world.run(5)
    world.refuses = lambda number: -1.0
    before = len(world.begun)
    world.run(24)
    assert len(world.begun) == before
    world.run(20)
    assert len(world.begun) > before + 1000


def test_one_refusal_in_twenty_is_no_trouble_and_one_in_three_is() -> None:
    world = World()
    world.refuses = lambda number: None if number % 20 == 0 else -1.0
    world.run(20)
    assert world.limiter.limit == CAP
    world.refuses = lambda number: None if number % 3 == 0 else -1.0
    world.run(10)
    assert world.limiter.limit < 50


def test_a_server_that_takes_only_so_many_gets_about_so_many() -> None:
    world = World()
    world.refuses = lambda number: None if world.in_flight > 60 else -1.0
    world.run(30)
    late = world.seen[len(world.seen) // 2 :]
    assert 30 <= sum(late) / len(late) <= 80


def test_tenfold_latency_cuts_within_seconds_and_good_answers_undo_it_within_seconds() -> None:
    world = World()
    world.run(20)
    world.seconds = lambda tokens: 2.0
    world.run(8)
    assert world.limiter.limit <= CAP // 3
    assert world.limiter.reason == "it has slowed down"
    world.seconds = lambda tokens: 0.2
    world.run(12)
    assert world.limiter.limit == CAP


def test_a_server_that_stays_slow_is_as_it_is() -> None:
    world = World()
    world.run(20)
    world.seconds = lambda tokens: 2.0
    world.run(120)
    assert world.limiter.limit == CAP


def test_longer_answers_are_no_slowness() -> None:
    world = World()
    world.seconds = lambda tokens: 0.1 + 0.002 * tokens
    for _ in range(10):
        world.tokens = 40 if world.tokens == 100 else 100
        world.run(3)
    world.tokens = 2000
    world.run(20)
    assert set(world.seen) == {CAP}


def test_latency_that_comes_of_more_calls_and_buys_more_answers_is_no_slowness() -> None:
    world = World(demand=10)
    world.seconds = lambda tokens: 0.1 + 0.002 * world.in_flight
    world.run(20)
    world.demand = 200
    world.run(20)
    assert set(world.seen) == {CAP}


def test_a_client_bound_by_its_own_cpu_does_not_keep_the_limit_down() -> None:
    # Far fewer in flight than the limit, and a loop that is late by twenty times what the server takes.
    world = World(demand=8)
    world.seconds = lambda tokens: 0.005
    world.limiter.begin_again(0.0, 0)
    assert world.limiter.limit < CAP
    world.run(7)
    world.lag = 0.1
    world.run(8)
    assert world.limiter.limit == CAP
    assert min(world.seen[-20:]) == CAP


def test_silence_cuts_it_and_lets_one_more_begin_each_second() -> None:
    world = World(demand=100)
    world.run(10)
    world.seconds = lambda tokens: None
    world.run(8)
    world.demand = 200
    assert world.limiter.limit <= 25
    assert world.limiter.reason == "nothing comes back"
    before = len(world.begun)
    world.run(10)
    assert 6 <= len(world.begun) - before <= 10


def test_calls_that_never_come_back_do_not_stop_the_others() -> None:
    world = World(demand=100)
    world.run(10)
    world.seconds = lambda tokens: None
    world.run(10)
    world.seconds = lambda tokens: 0.2
    world.demand = 200
    before = len(world.begun)
    world.run(20)
    assert world.limiter.limit == CAP
    assert len(world.begun) - before > 1000


def test_a_server_that_is_back_from_an_outage_warms_up() -> None:
    world = World()
    world.run(10)
    world.limiter.begin_again(world.now, 0)
    assert world.limiter.limit == 16
    world.run(10)
    assert world.limiter.limit == CAP


def test_a_quota_bounds_what_is_in_flight_and_an_empty_one_holds_calls_back() -> None:
    world = World()
    world.run(1)
    world.limiter.quota_left(world.now, 5, 10.0)
    assert world.limiter.admits == 5
    world.limiter.quota_left(world.now, 0, 2.0)
    assert world.limiter.admits == 0
    world.run(12)
    assert world.limiter.admits == CAP
