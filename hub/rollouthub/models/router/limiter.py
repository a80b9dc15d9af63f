"""How many calls a server gets at a time: fewer while it refuses or slows down, more again while it answers well.

The law is put together from published ones, each for what it is good at:

- Refused calls (HTTP 429) cut the limit in proportion to their share, once a round trip: DCTCP, RFC 8257, 3.3. One
  refusal among many answers changes nothing; a storm halves it, and calls are held back as a circuit breaker would.
- Slow answers cut it by the ratio of usual to present latency: the gradient of Netflix's concurrency-limits (Gradient2)
  and of Envoy's adaptive concurrency filter. A model's latency follows from how much it writes, so what is compared is
  the time that so many tokens usually take.
- Growth follows the clock, not the round trip, doubles below the level of the last trouble and feels its way around it:
  CUBIC, RFC 9438, 4.2 to 4.4.

Three things differ. The limit grows on good answers alone, whether or not it was reached: a client that is bound by its
own CPU never reaches it, and would keep it at its first value for ever. It begins wide open, and a cut starts from what
was really in flight. And latency is judged without the delay of our own event loop, and only where it buys nothing:
more calls in a batch are slower each, and more of them are answered.
"""

import math

from rollouthub.models.router.server_pace import Pace, Window

TICK_SECONDS = 0.25
"""How often `tick` is called."""
LONGEST_PAUSE_SECONDS = 30.0
"""No server is left alone longer because it refuses calls, whatever it asks for."""

_ENOUGH = 8
"""Calls that make a window worth judging."""
_LONGEST_WINDOW = 10.0
_TOLERATED_SHARE = 0.1
"""Refused calls that are no trouble: one try more for every tenth call."""
_TOLERANCE = 2.0
"""Slower than usual by this is too slow."""
_LEAST_SLOW = 4
"""Slowness alone leaves so many: fewer would not tell when it is over."""
_LAG_TURNS = 4
"""Turns of the event loop a call waits for on its way out and back."""
_FIRST_SECONDS = 5.0
"""Before that, nothing is known to be unusual."""
_STORM = 5
"""Refusals in a row that hold all calls back."""
_FIRST_PAUSE, _SHORTEST_PAUSE, _LONGEST_OWN_PAUSE = 1.0, 0.25, 15.0
_PROBING_SHARE = 16
"""After a pause, one call and this fraction of the limit find out whether it is over."""
_BEGIN_AGAIN = 16
"""What a server gets that was down: it has to warm up."""
_WAS_DOWN = "it was down"
_WORK_GROWS = 1.1
_SILENCE_SECONDS = 4.0
"""Three calls' time and this without an answer is no chance."""


class Limiter:
    """The limit of one server. Calls are counted as they end; the rest is decided in `tick`."""

    def __init__(self, cap: int, now: float) -> None:
        self.admits = cap
        """How many calls may be in flight right now: the limit, or less while calls are held back."""
        self.peak = 0
        """The most in flight since the window began; the owner raises it."""
        self.reason = ""
        """What the limit was last cut for."""
        self.paused_until = -math.inf
        self._cap, self._level = cap, float(cap)
        self._pace, self._window = Pace(), Window()
        self._age, self._refusals, self._failures = 0.0, 0, 0
        self._ticked = now
        # The level at which there was trouble, and until when what comes back was begun before the cut.
        self._trouble, self._blind_until = math.inf, -math.inf
        self._row = self._pauses = 0
        self._is_probing = False
        self._quota, self._quota_until = cap, -math.inf
        self._silence, self._stalls = 0.0, 0
        # Calls that may never come back, and how long ago they were given up.
        self._lost, self._lost_age = 0, math.inf
        self._lag = 0.0

    @property
    def limit(self) -> int:
        """Calls at a time, pauses aside."""
        return max(1, int(self._level))

    @property
    def is_open(self) -> bool:
        """Whether only the connections bound it."""
        return self._level >= self._cap and not self._is_probing

    @property
    def is_warming_up(self) -> bool:
        """Whether all that is wrong with it is that it was down."""
        return self.reason == _WAS_DOWN

    # --- what calls tell ----------------------------------------------------------------------------------------

    def answered(self, seconds: float, tokens: int) -> None:
        """A call was answered with so many tokens."""
        self._row = 0
        self._window.add(seconds, tokens)
        if seconds > self._lost_age:
            self._lost -= 1

    def failed(self) -> None:
        """A call failed for a reason that is not too much work."""
        self._failures += 1

    def overdue(self) -> None:
        """A call was not answered in its time."""
        self._refusals += 1

    def refused(self, now: float, in_flight: int, after_seconds: float | None) -> None:
        """A call was refused as one too many; the server may have said when to come again."""
        self._refusals += 1
        self._row += 1
        # Refusals come sooner than answers: of many calls begun at once, the first few say nothing.
        if now < self.paused_until or self._row < max(in_flight, 1 if self._is_probing else _STORM):
            return
        self._row = 0
        own = min((_FIRST_PAUSE if after_seconds is None else _SHORTEST_PAUSE) * 2**self._pauses, _LONGEST_OWN_PAUSE)
        self._pauses = min(self._pauses + 1, 10)
        self.reason = "it refuses calls"
        self.paused_until = now + min(max(own, after_seconds or 0.0), LONGEST_PAUSE_SECONDS)
        self._is_probing = True
        self.admits = 0

    def quota_left(self, now: float, calls: int, seconds: float) -> None:
        """The server says how many calls more it will take, and how long that holds."""
        seconds = min(seconds, LONGEST_PAUSE_SECONDS)
        self._quota, self._quota_until = max(calls, 1), now + seconds
        if calls <= 0:
            self.reason = "its quota is used up"
            self.paused_until = max(self.paused_until, now + seconds)
        self._admit(now)

    def begin_again(self, now: float, in_flight: int) -> None:
        """The server was down, and is back."""
        self._level = float(min(self._cap, _BEGIN_AGAIN))
        self._trouble = math.inf
        self.reason = _WAS_DOWN
        self._row = self._pauses = self._stalls = 0
        self._is_probing, self._silence = False, 0.0
        self._lost_age = 0.0
        self._give_up(in_flight)
        self._begin_window(in_flight)
        self._admit(now)

    # --- the law ------------------------------------------------------------------------------------------------

    def tick(self, now: float, in_flight: int, lag_seconds: float) -> None:
        """Look at what came in, and decide. `lag_seconds`: how late the event loop is."""
        elapsed, self._ticked = now - self._ticked, now
        self._age += elapsed
        self._lag = max(lag_seconds, self._lag / 2)
        answers, refusals = self._window.answers, self._refusals
        if answers or refusals or self._failures or not in_flight:
            self._silence, self._stalls = 0.0, 0
        else:
            self._silence += elapsed
        if answers and self._is_probing and now >= self.paused_until:
            self._is_probing, self._pauses = False, 0
        self._lost_age += elapsed
        self._give_up(min(self._lost, in_flight))
        if self._is_stalled:
            self._stalls += 1
            self._lost_age = 0.0
            self._give_up(in_flight)
            self._cut(now, 0.5, _LEAST_SLOW, in_flight, "nothing comes back")
        elif answers + refusals >= _ENOUGH or refusals >= _STORM or self._age >= self._longest_window:
            if answers or refusals:
                self._judge(now, in_flight)
            self._begin_window(in_flight)
        self._admit(now)

    @property
    def _longest_window(self) -> float:
        return min(1.0 + self._pace.seconds, _LONGEST_WINDOW)

    @property
    def _is_stalled(self) -> bool:
        """Whether nothing has come back for so long that something must be wrong."""
        usual = self._pace.seconds
        return usual > 0.0 and self._silence > 3 * usual + _SILENCE_SECONDS + self._stalls * (1.0 + usual)

    def _judge(self, now: float, in_flight: int) -> None:
        window, pace, age = self._window, self._pace, self._age
        share = self._refusals / (window.answers + self._refusals)
        usual = pace.usual(window)
        seconds = window.seconds - window.answers * _LAG_TURNS * self._lag
        is_known = pace.known_since is not None and now - pace.known_since >= _FIRST_SECONDS
        is_slow = is_known and seconds > _TOLERANCE * usual and usual <= _WORK_GROWS * pace.work * age
        if now >= self._blind_until:
            if share > _TOLERATED_SHARE:
                self._cut(now, 1.0 - share / 2, 1, in_flight, "it refuses calls")
            elif is_slow:
                self._cut(now, max(0.5, _TOLERANCE * usual / seconds), _LEAST_SLOW, in_flight, "it has slowed down")
            elif window.answers and not self._is_probing:
                self._grow()
        if window.answers:
            pace.learn(window, age, now, usual)

    def _cut(self, now: float, factor: float, least: int, in_flight: int, reason: str) -> None:
        """Take a share of what was in flight away, then wait for what that does."""
        before = min(self._level, max(self.peak, in_flight, least))
        self._trouble, self._level = before, min(self._level, max(before * factor, least))
        self.reason = reason
        window = self._window
        present = window.seconds / window.answers if window.answers else self._pace.seconds
        self._blind_until = now + min(max(present, TICK_SECONDS), _LONGEST_WINDOW)

    def _grow(self) -> None:
        level = self._level
        if level >= self._cap:
            return
        periods = self._age / max(1.0, min(self._pace.seconds, _LONGEST_WINDOW))
        near, past = 0.75 * self._trouble, 1.25 * self._trouble
        doubled = level * 2.0**periods + periods
        if level < near:
            level = min(doubled, max(near, level + periods))
        elif level > past:
            level = doubled
        else:
            level += max(1.0, 0.1 * self._trouble) * periods
        if level > past:
            self._trouble = math.inf
        self._level = min(level, float(self._cap))

    def _admit(self, now: float) -> None:
        """How many there may be now."""
        if now < self.paused_until:
            self.admits = 0
            return
        admits = self.limit
        if self._is_probing:
            admits = 1 + admits // _PROBING_SHARE
        if now < self._quota_until:
            admits = min(admits, self._quota)
        if self._stalls:
            admits = 1  # without another, nobody would know when calls are answered again
        self.admits = min(admits + max(self._lost, 0), self._cap)

    def _give_up(self, lost: int) -> None:
        """Take so many calls for lost: they count no longer, unless they are answered after all."""
        self._lost = max(lost, 0)
        if not self._lost:
            self._lost_age = math.inf

    def _begin_window(self, in_flight: int) -> None:
        self._window = Window()
        self._age, self._refusals, self._failures = 0.0, 0, 0
        self.peak = in_flight
