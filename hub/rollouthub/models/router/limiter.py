"""How many calls a server gets at a time: fewer while it refuses or slows down, more again while it answers well.

The control law combines published ones:

- Refused calls (HTTP 429) cut the limit in proportion to their share, once a round trip: DCTCP, RFC 8257, 3.3. One
  refusal among many answers changes nothing; mostly refusals halve it, and calls are held back as by a circuit breaker.
- Slow answers cut the limit by the ratio of usual to present latency: the gradient of Netflix's concurrency-limits
  (Gradient2) and of Envoy's adaptive concurrency filter. Since a model's latency depends on the length of its answers,
  the present latency is compared with the usual time for as many tokens.
- The limit grows with time, not per round trip: it doubles below the level of the last cut and grows slowly around that
  level: CUBIC, RFC 9438, 4.2 to 4.4.

Three things differ from these. The limit grows on good answers whether or not it was reached: a client that is limited
by its own CPU never reaches it, and would keep it at its first value for ever. It begins at its maximum, and a cut
starts from the number of calls actually in flight. And latency is judged without the delay of our own event loop, and
only cut where throughput does not rise with it: more calls in a batch are each slower, but more of them are answered.
"""

import math

from rollouthub.models.router.server_pace import Pace, Window

TICK_SECONDS = 0.25
"""Seconds between calls of `tick`."""
LONGEST_PAUSE_SECONDS = 30.0
"""Most seconds that a refusing server is left without calls, whatever it requests."""

_ENOUGH = 8
"""Calls in a window that are enough to judge it."""
_LONGEST_WINDOW = 10.0
_TOLERATED_SHARE = 0.1
"""Share of refused calls that is tolerated: about one more try for every tenth call."""
_TOLERANCE = 2.0
"""Factor above the usual latency from which a server counts as slow."""
_LEAST_SLOW = 4
"""The limit is not cut below this for slowness alone, so that an improvement can still be noticed."""
_LAG_TURNS = 4
"""Turns of the event loop that delay each call on its way out and back."""
_FIRST_SECONDS = 5.0
"""Seconds of answers after which a latency can be called unusual."""
_STORM = 5
"""Consecutive refusals after which all calls are held back."""
_FIRST_PAUSE, _SHORTEST_PAUSE, _LONGEST_OWN_PAUSE = 1.0, 0.25, 15.0
_PROBING_SHARE = 16
"""After a pause, 1 plus the limit divided by this many calls test whether the server accepts calls again."""
_BEGIN_AGAIN = 16
"""The limit of a server that was down, while it warms up."""
_WAS_DOWN = "it was down"
_WORK_GROWS = 1.1
_SILENCE_SECONDS = 4.0
"""With no answer for three calls' usual time plus this many seconds, the server counts as stalled."""


class Limiter:
    """The limit of one server. Ended calls are only counted; `tick` decides."""

    def __init__(self, cap: int, now: float) -> None:
        self.admits = cap
        """How many calls may be in flight now: the limit, or fewer while calls are held back."""
        self.peak = 0
        """Most calls in flight since the window began; `ModelReplica` updates it."""
        self.reason = ""
        """Why the limit was last cut."""
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
        """The limit of calls in flight, without regard to pauses."""
        return max(1, int(self._level))

    @property
    def is_open(self) -> bool:
        """Whether the limit is at its maximum and no pause is being tested."""
        return self._level >= self._cap and not self._is_probing

    @property
    def is_warming_up(self) -> bool:
        """Whether the limit is low only because the server was down."""
        return self.reason == _WAS_DOWN

    # --- what calls tell ----------------------------------------------------------------------------------------

    def answered(self, seconds: float, tokens: int) -> None:
        """Count a call that was answered in so many seconds with so many tokens."""
        self._row = 0
        self._window.add(seconds, tokens)
        if seconds > self._lost_age:
            self._lost -= 1

    def failed(self) -> None:
        """Count a call that failed for a reason other than overload."""
        self._failures += 1

    def overdue(self) -> None:
        """Count a call that timed out."""
        self._refusals += 1

    def refused(self, now: float, in_flight: int, after_seconds: float | None) -> None:
        """Count a call that was refused for overload, with the server's `Retry-After` in seconds, if any."""
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
        """Take the server's report that it accepts `calls` more calls within `seconds`."""
        seconds = min(seconds, LONGEST_PAUSE_SECONDS)
        self._quota, self._quota_until = max(calls, 1), now + seconds
        if calls <= 0:
            self.reason = "its quota is used up"
            self.paused_until = max(self.paused_until, now + seconds)
        self._admit(now)

    def begin_again(self, now: float, in_flight: int) -> None:
        """Reset the limit for a server that was down and is back."""
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
        """Judge the calls since the last window and adjust the limit. `lag_seconds` is the delay of the event loop."""
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
        """Whether no call has ended for so long that the server must be stuck."""
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
        """Cut the limit to a share of the calls in flight, then wait for the effect before judging again."""
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
        """Recompute how many calls may be in flight now."""
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
        """Treat so many calls as lost: they do not count against the limit unless they are answered after all."""
        self._lost = max(lost, 0)
        if not self._lost:
            self._lost_age = math.inf

    def _begin_window(self, in_flight: int) -> None:
        self._window = Window()
        self._age, self._refusals, self._failures = 0.0, 0, 0
        self.peak = in_flight
