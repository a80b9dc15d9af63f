"""One episode that an outside agent plays, from its opening to its record."""

import time
from collections.abc import Awaitable, Callable
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
from rollouthub.rollout import Fault, Outcome, Rollout, Stop

UNSCORED = Fault(
    boundary="hub", phase="agent", type="Practice", message="it was played for practice, which is never scored"
)
"""The fault in the record of a practice episode, as the reason why it has no reward."""


@dataclass(frozen=True)
class _Taken:
    """A seat that is open for its agent."""

    seat: EpisodeSeat
    address: SeatAddress
    patience: anyio.CancelScope
    """The scope to cancel in order to end the agent's time."""


class AgentSession:
    """A session of one episode. A separate task plays the episode; requests inspect the session, and ask it to end."""

    def __init__(
        self,
        ttl_seconds: float,
        on_open: "Callable[[AgentSession], None]",
        *,
        is_practice: bool = False,
        turn_seconds: float | None = None,
    ) -> None:
        """Where seats take turns, a seat that is silent for `turn_seconds` counts as gone."""
        self.ttl_seconds, self.is_practice, self._turn_seconds = ttl_seconds, is_practice, turn_seconds
        self._on_open = on_open
        self.events = EventLog()
        self.opened_at = time.time()
        self.expires_at: float | None = None
        self.attempt: Attempt | None = None
        self.rollout: Rollout | None = None
        """The episode's record, once it is durable."""
        self._fault: Fault | None = None
        self._taken: dict[str, _Taken] = {}
        self._error: HubError | None = None
        self._is_ending = self._is_cancelled = False
        self._settled, self._left, self._ended = anyio.Event(), anyio.Event(), anyio.Event()

    # --- what requests ask ------------------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id: the id of its rollout in the store."""
        return self.rollout.rollout_id if self.rollout is not None else self.sample.rollout_id

    @property
    def sample(self) -> Sample:
        """The sample that is played."""
        assert self.attempt is not None, "a session has no client before it is played"
        return self.attempt.sample

    @property
    def state(self) -> EpisodeState:
        """The session's state: opening, open, closing or ended."""
        if self._ended.is_set():
            return "ended"
        if self._is_ending or self._left.is_set():
            return "closing"
        return "open" if self._settled.is_set() else "opening"

    @property
    def addresses(self) -> dict[str, SeatAddress]:
        """The addresses of the seats by name, in the environment's order."""
        return {name: taken.address for name, taken in self._taken.items()}

    @property
    def seats(self) -> dict[str, EpisodeSeat]:
        """The seats of the session's episode, by name."""
        return {name: taken.seat for name, taken in self._taken.items()}

    @property
    def address(self) -> SeatAddress:
        """The address of the first seat, which is usually the only one."""
        return next(iter(self._taken.values())).address

    async def opened(self) -> None:
        """Wait until the episode is open, or has ended.

        Raises:
            HubError: the episode could not be opened.
        """
        await self._settled.wait()
        if self._error is not None:
            raise self._error

    async def over(self) -> Rollout:
        """Wait until the episode has ended; returns its durable record.

        Raises:
            HubError: the record could not be stored.
        """
        await self._ended.wait()
        if self.rollout is None:
            assert self._error is not None
            raise self._error
        return self.rollout

    async def seal(self) -> None:
        """End the agent's time; once this returns, its tokens are invalid, and the episode is being verified."""
        self._is_ending = True
        for taken in self._taken.values():
            taken.patience.cancel()
        await self._left.wait()

    async def verify(self) -> Rollout:
        """End the agent's time and wait for the record with its score. Repeated calls return the same record.

        Raises:
            HubError: the record could not be stored.
        """
        await self.seal()
        return await self.over()

    async def close(self) -> Rollout:
        """End the session, unscored if it has no score yet, and return its durable record.

        Raises:
            HubError: the record could not be stored.
        """
        self.cancel()
        return await self.over()

    def cancel(self, fault: Fault | None = None) -> None:
        """End the session, unscored and recorded as cancelled, unless it has a verdict; `fault` is the reason."""
        if self._ended.is_set() or self._is_cancelled:
            return
        # Before it is played there is nothing to cancel: who plays it looks at `is_cancelled`.
        if self.attempt is None or self.attempt.cancel() or self.attempt.state == "queued":
            self._is_cancelled, self._fault = True, fault

    @property
    def is_cancelled(self) -> bool:
        """Whether the session was cancelled."""
        return self._is_cancelled

    def ticket(self) -> EpisodeTicket:
        """The addresses and tokens for the client that opened the session; once its record is durable, its report."""
        if self.rollout is not None:
            ended = report_of(self.rollout)
            named = ended.model_dump(include={"id", "environment", "split", "task", "seed", "state"})
            return EpisodeTicket(**named, report=ended)
        sample = self.sample
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
            environment=sample.context.environment.name,
            split=sample.task_ref.split,
            task=sample.task_ref.id,
            seed=sample.seed,
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
        """The session's state, as the control plane reports it."""
        if self.rollout is not None:
            return report_of(self.rollout).model_copy(update={"expires_at": self.expires_at})
        sample, attempt = self.sample, self.attempt
        assert attempt is not None
        return EpisodeReport(
            id=self.id,
            environment=sample.context.environment.name,
            split=sample.task_ref.split,
            task=sample.task_ref.id,
            seed=sample.seed,
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
        """Whether the addresses of its seats were ever given out."""
        return self._settled.is_set()

    async def host(self, seat: EpisodeSeat, address: SeatAddress) -> Stop:
        """Keep a seat open for its agent until the agent's time is over; returns the reason."""
        try:
            stop = await self._host(seat, address)
        finally:
            # Whatever ended the agent's time: practice goes no further.
            if self.is_practice:
                self.cancel(UNSCORED)
        await anyio.lowlevel.checkpoint()
        return stop

    async def _host(self, seat: EpisodeSeat, address: SeatAddress) -> Stop:
        stop = Stop.FINISHED
        with anyio.CancelScope() as patience:
            self._taken[seat.name] = _Taken(seat, address, patience)
            if self._is_ending:
                patience.cancel()
            order = [name for name in seat.episode.seats if name not in self.sample.context.seats]
            if len(self._taken) == len(order):
                self._taken = {name: self._taken[name] for name in order}
                self.expires_at = time.time() + self.ttl_seconds
                self.events.add("opened")
                self._settled.set()
                self._on_open(self)
            if self._turn_seconds is None or not self.sample.context.host.info.takes_turns:
                await address.over()
            elif await self._is_silent(seat, address, self._turn_seconds):
                stop = Stop.TIME_LIMIT
        return stop

    async def _is_silent(self, seat: EpisodeSeat, address: SeatAddress, seconds: float) -> bool:
        """Wait until a seat's time is over; returns whether its agent was silent for too long."""
        silent = anyio.Event()

        async def end(wait: Awaitable[None], scope: anyio.CancelScope, event: anyio.Event | None = None) -> None:
            await wait
            if event is not None:
                event.set()
            scope.cancel()

        async with anyio.create_task_group() as waits:
            waits.start_soon(end, address.over(), waits.cancel_scope)
            waits.start_soon(end, seat.silent(seconds), waits.cancel_scope, silent)
        return silent.is_set()

    def moved(self, attempt: Attempt) -> None:
        """Register that the session's attempt has entered another stage."""
        if attempt.state in ("verify", "close"):
            self._left.set()
        self.events.add(attempt.state, turns=len(attempt.recorder.turns))

    def explained(self, rollout: Rollout) -> Rollout:
        """The record, with the session's fault if the hub cut the episode short; a practice record loses its score."""
        if self.is_practice and rollout.score is not None:
            rollout = rollout.model_copy(update={"outcome": Outcome.CANCELLED, "score": None})
        if self._fault is None or rollout.outcome is not Outcome.CANCELLED:
            return rollout
        return rollout.model_copy(update={"faults": (*rollout.faults, self._fault)})

    def end(self, rollout: Rollout | None, error: HubError | None = None) -> None:
        """Mark the session as ended, with its record or the error by which it was lost."""
        self.rollout, self._error = rollout, self._error or error
        if not self._settled.is_set() and self._error is None and rollout is not None:
            self._error = _unopened(rollout)
        outcome = "lost" if rollout is None else rollout.outcome.value
        self.events.add("ended", outcome=outcome)
        self.events.end()
        for event in (self._left, self._ended, self._settled):
            event.set()


def _unopened(rollout: Rollout) -> HubError:
    """The error for the client, if an episode ended before it was open."""
    said = "; ".join(fault.message for fault in rollout.faults) or f"it was {rollout.outcome.value}"
    retryable = any(fault.retryable for fault in rollout.faults)
    return TaskError(f"episode {rollout.rollout_id} could not be opened: {said}", retryable=retryable)


def report_of(rollout: Rollout) -> EpisodeReport:
    """How an episode ended, from its record."""
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
