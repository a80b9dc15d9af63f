"""One server of a model: how many calls it has in flight, and whether it is up, down or on trial."""

import logging
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from rollouthub.errors import ModelError
from rollouthub.generation import Model
from rollouthub.models.latency import LATEST, spread
from rollouthub.models.quota import MeteredModel
from rollouthub.models.retry import StreamCut
from rollouthub.models.router.circuit_breaker import CircuitBreakerSettings
from rollouthub.models.router.limiter import Limiter
from rollouthub.models.router.quota_watch import QuotaWatch

logger = logging.getLogger(__name__)

Health = Literal["up", "down", "trial"]
Standing = Literal["up", "cooling", "open"]
"""The state of a server in the terms of a circuit breaker: `up`; `cooling`: briefly held back, or on trial; `open`:
it gets no calls.
"""

MISFIT_STATUSES = frozenset({401, 403, 404})
"""HTTP statuses of a server that refuses the key or does not know the model; another server of the model may take
the call.
"""

UNBOUNDED = 2**31
"""Limit of calls in flight where there is none."""

_PRESSURE = frozenset({429, 529})
"""HTTP statuses of an overloaded server: the usual one, and Anthropic's own."""
_REPORT_AGAIN_SECONDS = 60.0
"""Fewest seconds between log messages that a server gets fewer calls."""
_REST_SECONDS = 1.0
"""Seconds for which a server that answers 429 without `Retry-After` is avoided."""


@dataclass(frozen=True)
class ReplicaStatus:
    """The state of one server."""

    model: str
    place: str
    """The server's base URL; the model's name if it has none."""
    in_flight: int
    limit: int
    """The present limit of calls in flight; 0 while all calls are held back."""
    calls: int
    """Tries begun at this server."""
    errors: int
    """Tries that failed through the server's fault."""
    is_paused: bool
    """Whether the server is taken out, or on trial after an outage."""
    latency_seconds: float | None
    """The median of the latest answers in seconds; None before the first."""
    latency_p95_seconds: float | None
    problem: str | None
    """The error for which the server was taken out; None while it is up."""
    standing: Standing
    reason: str | None
    """Why the server gets no calls, or fewer than there are; None if it gets all."""


class ModelReplica:
    """A lane to one server, with the server's health.

    A server is *up* until too many calls in a row fail, then *down*, when it gets no calls. After a rest it is checked;
    if it passes, it is on *trial*: the result of one call decides.
    """

    def __init__(
        self,
        lane: Model,
        place: str,
        breaker: CircuitBreakerSettings,
        now: Callable[[], float],
        on_change: Callable[[], None],
        *,
        most_calls: int = UNBOUNDED,
        is_alone: bool = False,
    ) -> None:
        """`on_change` is called when the server's health changes; `is_alone`: the model has no other server, so a
        refused request cannot be blamed on this one.
        """
        self.lane, self.place = lane, place
        self.health: Health = "up"
        self.in_flight = 0
        self.calls = 0
        self.errors = 0
        self.rest_until = 0.0
        """Clock time until which other servers are preferred, because this one requested a pause."""
        self.due = 0.0
        """Clock time of the next health check while the server is down."""
        self.down_since = 0.0
        self.problem: ModelError | None = None
        self._breaker, self._now, self._on_change, self._is_alone = breaker, now, on_change, is_alone
        self.limiter = Limiter(most_calls, now())
        self._metered = lane if isinstance(lane, MeteredModel) else None
        self._requests_watch = QuotaWatch(f"{place}: the provider's limit of requests")
        self._tokens_watch = QuotaWatch(f"{place}: the provider's limit of tokens")
        self._is_reduced = False
        self._reported_at = -math.inf
        self._failures = 0
        self._times_taken_out = 0
        # Calls begun before the last change of health say nothing about it if they fail.
        self._epoch = 0
        self._trial_calls = 0
        self._trial_since: float | None = None
        self._latencies: deque[float] = deque(maxlen=LATEST)

    def __repr__(self) -> str:
        return f"Replica({self.place!r}, {self.health})"

    @property
    def has_answered(self) -> bool:
        """Whether the server ever answered a call."""
        return bool(self._latencies)

    @property
    def has_room(self) -> bool:
        """Whether the server takes another call now."""
        if self.health == "up":
            return self.in_flight < self.limiter.admits
        return self.is_open  # what is in flight from before its outage may be lost

    @property
    def is_open(self) -> bool:
        """Whether the server takes calls, though perhaps not now."""
        return self.health == "up" or (self.health == "trial" and self._trial_calls < self._allowance()[0])

    @property
    def opens_in(self) -> float | None:
        """Seconds until a trial admits more calls, if none ends before; None if no such time is known."""
        return self._allowance()[1] if self.health == "trial" and self._trial_since is not None else None

    def _allowance(self) -> tuple[int, float]:
        """How many calls a trial may have had by now, and seconds until it may have more."""
        if self._trial_since is None:
            return 1, 0.0
        step = self._breaker.step_seconds
        steps, elapsed = divmod(self._now() - self._trial_since, step)
        return 1 << min(int(steps), 30), step - elapsed

    def begin(self) -> int:
        """Count a call that is about to be sent; returns a number to pass to the method that ends the call."""
        self.in_flight += 1
        self.calls += 1
        if self.in_flight > self.limiter.peak:
            self.limiter.peak = self.in_flight
        if self.health == "trial":
            self._trial_calls += 1
            if self._trial_since is None:
                self._trial_since = self._now()
        return self._epoch

    def end_answered(self, seconds: float, tokens: int = 0) -> None:
        """Count a call that was answered in so many seconds with so many tokens."""
        self.in_flight -= 1
        self._latencies.append(seconds)
        self.limiter.answered(seconds, tokens)
        if self._metered is not None and self._metered.quota is not None:
            self._read_quota(self._metered)
        self._lives()

    def end_failed(self, epoch: int, error: ModelError, *, is_fair: bool = True, is_late: bool = False) -> None:
        """Count a failed call; the error decides whose fault it is. `is_fair`: the call had enough time; `is_late`:
        the call used all its time.
        """
        self.in_flight -= 1
        status = error.status
        if self._metered is not None and self._metered.quota is not None:
            self._read_quota(self._metered)
        if error.retry_after_seconds is not None or status in _PRESSURE:
            now = self._now()
            self.rest_until = now + (error.retry_after_seconds or _REST_SECONDS)
            if error.retryable:
                self.limiter.refused(now, self.in_flight, error.retry_after_seconds)
        elif status is None and error.retryable and is_late:
            self.limiter.overdue()
        else:
            self.limiter.failed()
        if status in MISFIT_STATUSES and not self._is_alone:
            # Its own fault or the caller's: what another server says decides (`take_out`).
            if self.health == "trial" and epoch == self._epoch:
                self.take_out(error)
            return
        may_pass = error.retryable or isinstance(error, StreamCut)
        if status is not None and status < 500 and not (status == 200 and may_pass):
            self._lives()
            return
        if status is None and not may_pass:
            return  # ours or the caller's: nothing was sent
        self.errors += 1
        if epoch != self._epoch or not is_fair:
            return
        self._failures += 1
        if self.health == "trial" or self._failures >= self._breaker.failures:
            self.take_out(error)

    def _read_quota(self, lane: MeteredModel) -> None:
        """Take the rate limits that the provider reported with the last answer."""
        quota, lane.quota = lane.quota, None
        assert quota is not None
        for allowance, watch in ((quota.requests, self._requests_watch), (quota.tokens, self._tokens_watch)):
            if allowance is None:
                continue
            if allowance.used is not None:
                watch.used(allowance.used)
            if allowance is quota.requests or not allowance.left:
                self.limiter.quota_left(self._now(), allowance.left, allowance.next_in_seconds)

    def end_cancelled(self, epoch: int) -> None:
        """Count a call that its caller cancelled."""
        self.in_flight -= 1
        if self.health == "trial" and epoch == self._epoch:
            self._trial_calls -= 1
            if not self._trial_calls:
                self._trial_since = None

    def take_out(self, error: ModelError) -> None:
        """Give the server no calls for a while, longer each time in a row."""
        now = self._now()
        if self._times_taken_out == 0:
            self.down_since = now
        self._times_taken_out += 1
        seconds = self._breaker.rest_seconds(self._times_taken_out)
        # Once an outage: a server that is gone for an hour is checked hundreds of times.
        level = logging.WARNING if self._times_taken_out == 1 else logging.DEBUG
        logger.log(level, "%s takes no calls for now: %s; looking again in %.3g s", self.place, error, seconds)
        self.due, self.problem = now + seconds, error
        self._change("down")

    def put_on_trial(self) -> None:
        """Put the server on trial after a passed health check: one call decides."""
        self._trial_calls, self._trial_since = 0, None
        self._change("trial")

    def _lives(self) -> None:
        self._failures = 0
        if self.health == "up":
            return
        logger.warning("%s takes calls again, after %.3g s", self.place, self._now() - self.down_since)
        self._times_taken_out, self.problem = 0, None
        self.limiter.begin_again(self._now(), self.in_flight)
        self._change("up")

    def tick(self, lag_seconds: float) -> bool:
        """Adjust the limit; returns whether the server takes another call now. `lag_seconds` is the delay of the
        event loop.
        """
        limiter, now = self.limiter, self._now()
        limiter.tick(now, self.in_flight, lag_seconds)
        if limiter.is_open:
            if self._is_reduced:
                self._is_reduced = False
                logger.info("%s gets as many calls at a time as there are", self.place)
        elif self.health == "up" and not self._is_reduced and now >= self._reported_at + _REPORT_AGAIN_SECONDS:
            self._is_reduced, self._reported_at = True, now
            level = logging.INFO if limiter.is_warming_up else logging.WARNING
            logger.log(level, "%s gets %d calls at a time for now: %s", self.place, limiter.limit, limiter.reason)
        return self.has_room

    def _change(self, health: Health) -> None:
        self.health = health
        self._failures = 0
        self._epoch += 1
        self._on_change()

    def status(self, model: str) -> ReplicaStatus:
        """The server's state and figures, for `hub watch` and metrics."""
        latency = spread(self._latencies)
        standing, reason = self._standing()
        return ReplicaStatus(
            model=model,
            place=self.place,
            in_flight=self.in_flight,
            limit=self.limiter.admits and self.limiter.limit,
            calls=self.calls,
            errors=self.errors,
            is_paused=self.health != "up",
            latency_seconds=None if latency is None else latency[0],
            latency_p95_seconds=None if latency is None else latency[1],
            problem=None if self.problem is None else str(self.problem),
            standing=standing,
            reason=reason,
        )

    def _standing(self) -> tuple[Standing, str | None]:
        """The server's `Standing`, and the reason if it gets no calls or fewer."""
        now, limiter = self._now(), self.limiter
        if self.health == "down":
            return "open", f"looked at again in {max(self.due - now, 0.0):.1f} s: {self.problem}"
        if self.health == "trial":
            return "cooling", f"on trial after an outage: {self.problem}"
        if limiter.paused_until > now:
            return "cooling", f"{limiter.reason}; held off for {limiter.paused_until - now:.1f} s more"
        if self.rest_until > now:
            return "cooling", f"it asked for a pause, of {self.rest_until - now:.1f} s more"
        if not limiter.is_open:
            return "up", f"gets {limiter.limit} calls at a time: {limiter.reason}"
        if limiter.admits < limiter.limit:
            return "up", f"gets {limiter.admits} calls at a time, as its quota has it"
        return "up", None
