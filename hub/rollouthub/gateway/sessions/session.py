"""One episode that somebody outside plays, from its opening to its record."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import anyio
import anyio.lowlevel

from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.errors import HubError, TaskError
from rollouthub.gateway.sessions.external_agent import PRACTICE
from rollouthub.gateway.sessions.sessions_wire import EpisodeReport, EpisodeState, EpisodeTicket, SeatTicket
from rollouthub.hosting.server.event_log import EventLog
from rollouthub.protocols import SeatAddress
from rollouthub.rollout import Fault, Outcome, Rollout

UNSCORED = Fault(
    boundary="hub", phase="agent", type="Practice", message="it was played for practice, which is never scored"
)
"""Why what was practised has no reward."""


@dataclass(frozen=True)
class _Taken:
    """A seat that waits for its agent."""

    seat: EpisodeSeat
    address: SeatAddress
    patience: anyio.CancelScope
    """Cancelled to end the agent's time."""


class AgentSession:
    """An episode on its way. Its own task plays it; requests look at it, and ask for its end."""

    def __init__(
        self, ttl_seconds: float, on_open: "Callable[[AgentSession], None]", *, is_practice: bool = False
    ) -> None:
        self.ttl_seconds, self.is_practice = ttl_seconds, is_practice
        self._on_open = on_open
        self.events = EventLog()
        self.opened_at = time.time()
        self.expires_at: float | None = None
        self.attempt: Attempt | None = None
        self.rollout: Rollout | None = None
        """Its record, once that is durable."""
        self._fault: Fault | None = None
        self._taken: dict[str, _Taken] = {}
        self._error: HubError | None = None
        self._is_ending = self._is_cancelled = False
        self._settled, self._left, self._ended = anyio.Event(), anyio.Event(), anyio.Event()

    # --- what requests ask ------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """As the store names its sample."""
        return self.rollout.rollout_id if self.rollout is not None else self.item.rollout_id

    @property
    def item(self) -> Sample:
        """What is played."""
        assert self.attempt is not None, "a visit is known by nobody before it is played"
        return self.attempt.item

    @property
    def state(self) -> EpisodeState:
        """Where it stands."""
        if self._ended.is_set():
            return "ended"
        if self._is_ending or self._left.is_set():
            return "closing"
        return "open" if self._settled.is_set() else "opening"

    @property
    def addresses(self) -> dict[str, SeatAddress]:
        """Where its seats are, by name, in the environment's order."""
        return {name: taken.address for name, taken in self._taken.items()}

    @property
    def seats(self) -> dict[str, EpisodeSeat]:
        """Its seats, from inside."""
        return {name: taken.seat for name, taken in self._taken.items()}

    @property
    def address(self) -> SeatAddress:
        """Where its first seat is, which is mostly the only one."""
        return next(iter(self._taken.values())).address

    async def opened(self) -> None:
        """Wait until it is open, or was.

        Raises:
            HubError: it could not be opened.
        """
        await self._settled.wait()
        if self._error is not None:
            raise self._error

    async def over(self) -> Rollout:
        """Wait until its agent, or something else, has ended it; its durable record.

        Raises:
            HubError: the record could not be kept.
        """
        await self._ended.wait()
        if self.rollout is None:
            assert self._error is not None
            raise self._error
        return self.rollout

    async def seal(self) -> None:
        """End the agent's time; once this returns its tokens open nothing. What it has done is verified."""
        self._is_ending = True
        for taken in self._taken.values():
            taken.patience.cancel()
        await self._left.wait()

    async def verify(self) -> Rollout:
        """End the agent's time and wait for the record, score included. However often it is asked, there is one.

        Raises:
            HubError: the record could not be kept.
        """
        await self.seal()
        return await self.over()

    async def close(self) -> Rollout:
        """End the session, unscored if it has no score yet, and return its durable record.

        Raises:
            HubError: the record could not be kept.
        """
        self.cancel()
        return await self.over()

    def cancel(self, fault: Fault | None = None) -> None:
        """End it, unscored and recorded as cancelled, unless there is a verdict; `fault` says why."""
        if self._ended.is_set() or self._is_cancelled:
            return
        # Before it is played there is nothing to cancel: who plays it looks at `is_cancelled`.
        if self.attempt is None or self.attempt.cancel() or self.attempt.state == "queued":
            self._is_cancelled, self._fault = True, fault

    @property
    def is_cancelled(self) -> bool:
        """Whether it was told to end unscored."""
        return self._is_cancelled

    def ticket(self) -> EpisodeTicket:
        """What its opener needs."""
        if self.rollout is not None:
            ended = report_of(self.rollout)
            named = ended.model_dump(include={"id", "environment", "split", "task", "seed", "state"})
            return EpisodeTicket(**named, report=ended)
        item = self.item
        seats = tuple(
            SeatTicket(
                name=name,
                agent_url=taken.address.agent_url,
                llm_url=taken.address.llm_url,
                api_key=taken.address.api_key,
                tools=tuple(taken.seat.plane.tools),
                messages=taken.seat.messages,
            )
            for name, taken in self._taken.items()
        )
        first = seats[0]
        return EpisodeTicket(
            id=self.id,
            environment=item.cast.environment.name,
            split=item.task_ref.split,
            task=item.task_ref.id,
            seed=item.seed,
            state=self.state,
            agent_url=first.agent_url,
            llm_url=first.llm_url,
            api_key=first.api_key,
            model=self.address.model,
            tools=first.tools,
            messages=first.messages,
            seats=seats,
            expires_at=self.expires_at,
        )

    def report(self) -> EpisodeReport:
        """How it stands."""
        if self.rollout is not None:
            return report_of(self.rollout).model_copy(update={"expires_at": self.expires_at})
        item, attempt = self.item, self.attempt
        assert attempt is not None
        return EpisodeReport(
            id=self.id,
            environment=item.cast.environment.name,
            split=item.task_ref.split,
            task=item.task_ref.id,
            seed=item.seed,
            attempt=attempt.number,
            state=self.state,
            is_practice=self.is_practice,
            opened_at=self.opened_at,
            expires_at=self.expires_at,
            turns=len(attempt.recorder.turns),
            output_tokens=attempt.recorder.output_tokens,
        )

    # --- what its own task tells ------------------------------------------------------------------------------------

    @property
    def was_open(self) -> bool:
        """Whether anyone was told where its seats are."""
        return self._settled.is_set()

    async def host(self, seat: EpisodeSeat, address: SeatAddress) -> None:
        """Keep a seat for its agent until its time is over."""
        try:
            await self._host(seat, address)
        finally:
            # Whatever ended the agent's time: practice goes no further.
            if self.is_practice:
                self.cancel(UNSCORED)
        await anyio.lowlevel.checkpoint()

    async def _host(self, seat: EpisodeSeat, address: SeatAddress) -> None:
        with anyio.CancelScope() as patience:
            self._taken[seat.name] = _Taken(seat, address, patience)
            if self._is_ending:
                patience.cancel()
            if len(self._taken) == len(seat.episode.seats):
                order = list(seat.episode.seats)
                self._taken = {name: self._taken[name] for name in order}
                self.expires_at = time.time() + self.ttl_seconds
                self.events.add("opened")
                self._settled.set()
                self._on_open(self)
            await address.over()

    def moved(self, attempt: Attempt) -> None:
        """Its attempt is in another state."""
        if attempt.state in ("verify", "close"):
            self._left.set()
        self.events.add(attempt.state, turns=len(attempt.recorder.turns))

    def explained(self, rollout: Rollout) -> Rollout:
        """Its record, saying why it was cut short where that was neither its agent nor its opener."""
        if self.is_practice and rollout.score is not None:
            rollout = rollout.model_copy(update={"outcome": Outcome.CANCELLED, "score": None})
        if self._fault is None or rollout.outcome is not Outcome.CANCELLED:
            return rollout
        return rollout.model_copy(update={"faults": (*rollout.faults, self._fault)})

    def end(self, rollout: Rollout | None, error: HubError | None = None) -> None:
        """It is over: on record, or lost to an error."""
        self.rollout, self._error = rollout, self._error or error
        if not self._settled.is_set() and self._error is None and rollout is not None:
            self._error = _unopened(rollout)
        outcome = "lost" if rollout is None else rollout.outcome.value
        self.events.add("ended", outcome=outcome)
        self.events.end()
        for event in (self._left, self._ended, self._settled):
            event.set()


def _unopened(rollout: Rollout) -> HubError:
    """Why an episode never opened, for who asked for it."""
    said = "; ".join(fault.message for fault in rollout.faults) or f"it was {rollout.outcome.value}"
    retryable = any(fault.retryable for fault in rollout.faults)
    return TaskError(f"episode {rollout.rollout_id} could not be opened: {said}", retryable=retryable)


def report_of(rollout: Rollout) -> EpisodeReport:
    """How an episode ended, by its record."""
    return EpisodeReport(
        id=rollout.rollout_id,
        environment=rollout.environment.name,
        split=rollout.task.split,
        task=rollout.task.id,
        seed=rollout.seed,
        attempt=rollout.attempt,
        state="ended",
        is_practice=rollout.agent.name == PRACTICE,
        opened_at=rollout.started_at,
        turns=len(rollout.turns),
        output_tokens=sum(turn.usage.output_tokens for turn in rollout.turns),
        outcome=rollout.outcome,
        stop=rollout.stop,
        score=rollout.score,
        answer=rollout.answer,
        faults=rollout.faults,
    )
