"""Handles requests of clients: reads the run's state, or changes it."""

import logging
import os
import sqlite3
import time

import anyio
import anyio.to_thread

from rollouthub.engine.in_flight import InFlight
from rollouthub.engine.run_control import LiveRun
from rollouthub.errors import HubError
from rollouthub.limits import Limits
from rollouthub.live.control.attempt_descriptions import rollout_view, shown_rollout
from rollouthub.live.control.broadcast import Broadcast
from rollouthub.live.control.live_machines import machines
from rollouthub.live.control.live_protocol import (
    CancelRequest,
    Done,
    InterruptRequest,
    ListRequest,
    PauseRequest,
    RequestProblem,
    ResumeRequest,
    RetryRequest,
    RetuneRequest,
    ShowRequest,
    TellRequest,
)
from rollouthub.live.control.live_views import RolloutDetails, RunListing, RunView
from rollouthub.live.control.retry_reasons import RESUME, named, why_not_again
from rollouthub.live.control.sandbox_shells import shells
from rollouthub.statistics import RunningMeans
from rollouthub.store.durable_means import StoredMeans
from rollouthub.text import plain_name

logger = logging.getLogger(__name__)

_MEANS_SECONDS = 5.0
_MEANS_AGE_SECONDS = 0.5
_MOST_KNOWN = 50
"""Rollouts named to who asked for one that is not in flight."""


class RequestRefused(Exception):
    """A request that cannot be met; its message is sent to the client."""

    def __init__(self, problem: RequestProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


class RequestHandlers:
    """Where the clients of one run are served."""

    def __init__(self, live: LiveRun, broadcast: Broadcast) -> None:
        self._live, self._broadcast = live, broadcast
        self._stored: StoredMeans | None = None
        self._means: RunningMeans | None = None
        self._means_at = float("-inf")
        # A thread of its own: those that everyone shares may all be held by environments that block.
        self._thread = anyio.CapacityLimiter(1)
        self._told_of: set[str] = set()

    async def list(self, request: ListRequest) -> RunListing:
        """List the run's facts and the attempts in flight."""
        live = self._live
        means = await self._read_means()
        facts = live.facts
        assert facts is not None, "the socket opens once the run plays"
        attempts = list(live.attempts.values())
        plays_on = machines(live)
        return RunListing(
            run=RunView(
                run_id=facts.run_id,
                directory=str(facts.directory),
                pid=os.getpid(),
                status=live.state,
                environments=tuple(plain_name(name) for name in facts.environments),
                agent=plain_name(facts.agent),
                model=None if facts.model is None else plain_name(facts.model),
                planned=facts.planned,
                done=None if means is None else means.finished,
                in_flight=len(attempts),
                concurrency=live.concurrency,
                workers=live.workers,
                followers=self._broadcast.followers,
                started_at=live.began_at,
                seconds=round(time.time() - live.began_at, 3),
                means=None if means is None else means.to_json(),
                backends=plays_on.backends,
                staff=plays_on.staff,
                sandboxes=plays_on.sandboxes,
            ),
            rollouts=tuple(rollout_view(attempt) for attempt in attempts[: request.limit]),
            left_out=max(0, len(attempts) - request.limit),
        )

    async def show(self, request: ShowRequest) -> RolloutDetails:
        """Show one rollout, and how to open a shell in its sandbox."""
        attempt = self._find(request.rollout)
        if request.content and request.rollout not in self._told_of:
            # Whoever watches one live asks every second: once says it.
            self._told_of.add(request.rollout)
            logger.info("live control: the content of %s is read", request.rollout)
        found, why_none = await shells(attempt)
        shown = shown_rollout(attempt, with_content=request.content)
        return shown.model_copy(update={"shells": found, "no_shell": why_none})

    def cancel(self, request: CancelRequest) -> Done:
        """Cancel a rollout without a score, or the run."""
        if request.rollout is None:
            logger.info("live control: the run was cancelled")
            if not self._live.cancel():
                raise _not_possible("this hub ends only as a whole; send its process a SIGTERM")
            return Done(message="the run stops now; attempts in flight are recorded as cancelled")
        attempt = self._find(request.rollout)
        if not attempt.cancel():
            raise RequestRefused(
                RequestProblem(kind="too_late", message=f"{request.rollout} has its verdict, and is only closing")
            )
        logger.info("live control: %s was cancelled", request.rollout)
        return Done(message=f"{request.rollout} is cancelled; `hub live retry` or `hub run --resume` plays it again")

    def interrupt(self, request: InterruptRequest) -> Done:
        """End a rollout's agent phase, or let the run start no new attempts."""
        if request.rollout is None:
            logger.info("live control: the run was interrupted")
            self._live.interrupt()
            return Done(message="the run starts nothing new, and finishes what is in flight")
        if not self._find(request.rollout).interrupt():
            message = f"the agent's time in {request.rollout} is over already"
            raise RequestRefused(RequestProblem(kind="too_late", message=message))
        logger.info("live control: %s was interrupted", request.rollout)
        return Done(message=f"the agent's time in {request.rollout} is over; what it did is verified and scored")

    def retune(self, request: RetuneRequest) -> Done:
        """Change the number of concurrent episodes or workers, or the limits of one rollout."""
        if request.concurrency is not None:
            if not self._live.resize(request.concurrency):
                raise _not_possible("how many episodes this hub plays is not its own choice")
            logger.info("live control: %d at a time", request.concurrency)
            return Done(message=f"the run plays {request.concurrency} at a time; what is in flight finishes")
        if request.workers is not None:
            if not self._live.resize_workers(request.workers):
                raise _not_possible("this run plays in the hub's own process; start it with --pool ray to have workers")
            logger.info("live control: %d workers", request.workers)
            return Done(message=f"the run plays with {request.workers} workers; those too many finish what they have")
        assert request.rollout is not None and request.limits is not None
        attempt = self._find(request.rollout)
        changes = request.limits.model_dump(exclude_unset=True)
        attempt.retune(Limits.model_validate({**attempt.limits.model_dump(), **changes}))
        logger.info("live control: %s goes on with %s", request.rollout, changes)
        limits = ", ".join(f"{name} {value:g}" for name, value in attempt.limits if value is not None)
        return Done(message=f"{request.rollout} goes on with {limits or 'no limits'}; its record says so")

    def hold(self, request: PauseRequest | ResumeRequest) -> Done:
        """Pause or resume starting attempts."""
        live, is_held = self._live, isinstance(request, PauseRequest)
        if live.state in ("finishing", "stopping"):
            raise _too_late(f"the run is {live.state}, and starts nothing new as it is")
        if not live.hold(is_held):
            raise _not_possible("what this hub plays, and when, those decide who ask it for episodes")
        logger.info("live control: the run was %s", "paused" if is_held else "resumed")
        if is_held:
            return Done(message="the run starts nothing new until it is resumed; what is in flight goes on")
        return Done(message="the run goes on")

    def tell(self, request: TellRequest) -> Done:
        """Send a message to an agent."""
        attempt = self._find(request.rollout)
        if attempt.why_no_interventions is not None:
            raise _not_possible(f"nothing can be said in {request.rollout}: {plain_name(attempt.why_no_interventions)}")
        if not attempt.intervene(request.text):
            raise _too_late(f"the agent's time in {request.rollout} is over already")
        logger.info("live control: something was said to the agent of %s", request.rollout)
        return Done(message=f"{request.rollout} is told before its model's next answer; its record will say so")

    async def retry(self, request: RetryRequest) -> Done:
        """Play a sample again that ended without a result."""
        live = self._live
        if (playing := named(request.rollout, tuple(live.attempts))) is not None:
            raise _too_late(
                f"{playing} is in flight; what has ended without a result is played again, so cancel it first"
            )
        undecided = live.undecided
        name = named(request.rollout, undecided) or request.rollout
        match live.retry(name):
            case "queued":
                logger.info("live control: %s is tried again", name)
                return Done(message=f"{name} is played again; the earlier attempt is kept")
            case "waiting":
                raise _too_late(f"{plain_name(name)} waits to be played as it is")
            case "over":
                raise _too_late(f"the run starts nothing new; {RESUME}")
            case "on_demand":
                raise _not_possible("what this hub plays, and when, those decide who ask it for episodes")
            case "unknown":
                assert live.facts is not None, "the socket opens once the run plays"
                known = tuple(undecided[-_MOST_KNOWN:])
                problem = await anyio.to_thread.run_sync(
                    why_not_again, live.facts.directory, name, known, limiter=self._thread, abandon_on_cancel=True
                )
                raise RequestRefused(problem)

    def _find(self, rollout_id: str) -> InFlight:
        attempt = self._live.attempts.get(rollout_id)
        if attempt is None:
            directory = self._live.facts.directory if self._live.facts is not None else "RUN"
            raise RequestRefused(
                RequestProblem(
                    kind="unknown_rollout",
                    message=f"no rollout {plain_name(rollout_id)!r} is in flight; what has ended shows "
                    f"`hub show {directory} ROLLOUT`",
                    known=tuple(self._live.attempts)[:_MOST_KNOWN],
                )
            )
        return attempt

    async def _read_means(self) -> RunningMeans | None:
        """The means over durable records, including a resumed run's earlier rollouts, read from the store."""
        now = anyio.current_time()
        if now - self._means_at < _MEANS_AGE_SECONDS:
            return self._means
        self._means_at = now
        with anyio.move_on_after(_MEANS_SECONDS) as scope:
            self._means = await anyio.to_thread.run_sync(
                self._stored_means, limiter=self._thread, abandon_on_cancel=True
            )
        if scope.cancelled_caught:
            self._means = None
        return self._means

    def _stored_means(self) -> RunningMeans | None:
        facts = self._live.facts
        if facts is None:
            return None
        self._stored = self._stored or StoredMeans(facts.directory, facts.planned or 0)
        try:
            return self._stored.read()
        except (HubError, OSError, sqlite3.Error) as error:
            logger.warning("live control: the run's means could not be read: %s", error)
            return None


def _too_late(message: str) -> RequestRefused:
    return RequestRefused(RequestProblem(kind="too_late", message=message))


def _not_possible(message: str) -> RequestRefused:
    return RequestRefused(RequestProblem(kind="not_possible", message=message))
