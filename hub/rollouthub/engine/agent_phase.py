"""The agent phase of an attempt: every seat is taken and played until its agent stops, a limit, or the deadline."""

import logging
from collections.abc import Callable, Sequence

import anyio

from rollouthub.engine.agent_kind import kind_of
from rollouthub.engine.attribution import decisive, fault_of
from rollouthub.engine.recorder import Recorder
from rollouthub.engine.sample import Sample
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.errors import AgentError, EpisodeError, EpisodeStop, TaskError
from rollouthub.event_loop import timed
from rollouthub.limits import Limits, charged
from rollouthub.protocols import (
    Agent,
    Episode,
    ExposedAgent,
    ListeningAgent,
    ReferenceAgent,
    SampleAgent,
)
from rollouthub.rollout import Fault, Stop
from rollouthub.store.run_facts import State
from rollouthub.tracing import Trace

logger = logging.getLogger(__name__)


class AgentPhase:
    """The part of an attempt in which agents play its seats, and its time limit."""

    def __init__(self, sample: Sample, recorder: Recorder, trace: Trace | None) -> None:
        self.limits = sample.context.limits
        """The limits in force; `retune` replaces them."""
        self.seats: list[EpisodeSeat] = []
        """The open seats; empty before and after the agents play."""
        self.failed: dict[str, Fault] = {}
        """Seat → the fault of its player, for seats whose player failed while other seats played on."""
        self.privileged: set[str] = set()
        """Names of the seats that played the reference solution."""
        self._sample, self._recorder, self._trace = sample, recorder, trace
        self._scope: anyio.CancelScope | None = None
        self._since = 0.0
        self._is_interrupted = False
        self._said_early: list[str] = []
        """Messages of a person that came before a seat was open."""

    @property
    def is_under_way(self) -> bool:
        """Whether the agent is playing now."""
        return self._scope is not None

    def interrupt(self) -> None:
        """End the agent phase now, or as soon as it begins."""
        self._is_interrupted = True
        if self._scope is not None:
            self._scope.cancel()

    def retune(self, limits: Limits) -> None:
        """Replace the limits in force; the limit of tokens per response stays as it was."""
        self.limits = limits
        for seat in self.seats:
            seat.limits = limits
        if self._scope is not None:
            self._scope.deadline = self._since + self._seconds()[0]

    def intervene(self, text: str) -> bool:
        """Send a person's message to the agents at all seats; False if no seat can take it any more."""
        if not self.seats:
            self._said_early.append(text)
            return True
        taken = [seat.intervene(text) for seat in self.seats]
        return any(taken)

    async def play(self, episode: Episode, on_state: Callable[[State], None]) -> Stop:
        """Let the agents play until they stop, a limit, the deadline or an interrupt; `on_state` gets each change of
        state.

        Raises:
            EpisodeError: the agent failed, or its environment, sandbox or model did.
        """
        if self._is_interrupted:
            return Stop.INTERRUPTED
        self._since = anyio.current_time()
        scope = self._scope = anyio.move_on_after(self._seconds()[0])
        try:
            with scope, charged(scope):
                names = list(episode.seats)
                if len(names) == 1:
                    return await self._take_seat(names[0], episode, on_state)
                return await self._take_seats(names, episode, on_state)
        finally:
            self._scope = None
            seats = tuple(self.seats)
            self.seats.clear()  # they hold the attempt: a circle would keep it until the garbage is collected
        seconds, is_limit = self._seconds()
        if episode.is_sealed:
            return Stop.SUBMITTED
        if self._is_interrupted:
            return Stop.INTERRUPTED
        if is_limit:
            return Stop.TIME_LIMIT
        self._end_late(f"had not stopped after {seconds:g} s", seats)
        return Stop.FAILED

    def _end_late(self, why: str, seats: Sequence[EpisodeSeat]) -> None:
        """End the phase at its deadline; seats that had stopped or waited for another seat are not counted as failed.

        Raises:
            AgentError: no seat had stopped or waited, or none was late.
        """
        late = [seat.name for seat in seats if not (seat.has_left or seat.is_waiting)]
        if not late or len(late) == len(seats):
            raise AgentError(f"the agent {why}")
        for name in late:
            self.failed[name] = fault_of(AgentError(f"seat {name!r}: its agent {why}"), "agent")

    def _seconds(self) -> tuple[float, bool]:
        """The time in seconds that the agents have, and whether it comes from a limit (else from the deadline)."""
        limit, deadline = self.limits.max_seconds, self._sample.context.deadlines.agent
        return (limit, True) if limit is not None and limit <= deadline else (deadline, False)

    async def _take_seats(self, names: list[str], episode: Episode, on_state: Callable[[State], None]) -> Stop:
        """Let all seats play at once. Returns the first reason to stop, in the order of seats, that is not
        `FINISHED`.
        """
        stops: dict[str, Stop] = {}
        broken: BaseExceptionGroup[EpisodeError] | None = None

        async def take(name: str) -> None:
            try:
                stops[name] = await self._take_seat(name, episode, on_state)
            except EpisodeError as error:
                self._excuse(name, error, episode)
                stops[name] = Stop.FAILED
            await episode.leave(name)
            for seat in self.seats:  # it may have ended the episode for all
                seat.has_left = seat.has_left or seat.name == name
                seat.look()

        try:
            async with anyio.create_task_group() as seats:
                for name in names:
                    seats.start_soon(take, name)
        except* EpisodeError as group:
            broken = group
        if broken is not None:  # Python before 3.11.4 makes a group of one of what is raised in `except*`
            raise decisive(broken) from broken
        if len(self.failed) == len(names):
            failed, self.failed = self.failed, {}
            raise AgentError("; ".join(fault.message for fault in failed.values()))
        return next((stops[name] for name in names if stops[name] is not Stop.FINISHED), Stop.FINISHED)

    def _excuse(self, name: str, error: EpisodeError, episode: Episode) -> None:
        """Record an error as the failure of one seat's player, and let the other seats play on.

        Raises:
            EpisodeError: the error is not the agent's, or the environment recorded a fault, which ends the episode for
            all.
        """
        fault = fault_of(error, "agent")
        if fault.boundary != "agent" or episode.faults:
            raise error
        self.failed[name] = fault.model_copy(update={"message": f"seat {name!r}: {fault.message}"})

    async def _take_seat(self, name: str, episode: Episode, on_state: Callable[[State], None]) -> Stop:
        seat = self._open_seat(name, episode, on_state)
        try:
            stop = await self._choose(seat, episode) if await self._has_turn(seat) else Stop.FINISHED
        except Exception as error:
            # The first terminal wins: what the agent trips over afterwards changes nothing.
            over = Stop.SUBMITTED if episode.is_sealed else seat.reached
            if over is not None:
                return over
            if seat.fault is not None:
                raise seat.fault from error
            broken = decisive(error)
            if isinstance(broken, EpisodeError):
                raise broken from None
            if isinstance(broken, EpisodeStop):
                return Stop(broken.stop)
            agent = self._sample.context.player(name).agent
            logger.exception("agent %r failed in %s", agent.name, self._sample.rollout_id)
            raise AgentError(f"the agent raised {type(broken).__name__}: {broken}") from error
        if episode.is_sealed:
            return Stop.SUBMITTED
        if seat.fault is not None:
            raise seat.fault
        if seat.reached is not None:
            return seat.reached
        if not isinstance(stop, Stop):  # pyright: ignore[reportUnnecessaryIsInstance]  # agents are anyone's code
            raise AgentError(f"the agent returned {stop!r}; it must return a Stop")
        return Stop.TOKEN_LIMIT if seat.is_truncated and stop is Stop.FINISHED else stop

    def _open_seat(self, name: str, episode: Episode, on_state: Callable[[State], None]) -> EpisodeSeat:
        sample = self._sample
        player = sample.player(name)
        sampling = player.sampling
        if sample.policy_seed is not None and sampling.seed is None:
            sampling = sampling.model_copy(update={"seed": sample.policy_seed})
        seat = EpisodeSeat(
            name,
            episode,
            self._recorder,
            player.model,
            sampling,
            self.limits,
            sample.context.deadlines.model_call,
            sample.rollout_id,
            on_state,
            self._trace,
        )
        self.seats.append(seat)
        for text in self._said_early:
            seat.intervene(text)
        return seat

    async def _has_turn(self, seat: EpisodeSeat) -> bool:
        """Wait for a seat's first turn if seats take turns; False if the seat gets none."""
        context = self._sample.context
        if not context.host.info.takes_turns or kind_of(type(context.player(seat.name).agent)) == "listening":
            return True
        heard = await seat.reply(())
        seat.messages += tuple(heard or ())
        return heard is not None

    async def _choose(self, seat: EpisodeSeat, episode: Episode) -> Stop:
        agent = self._sample.context.player(seat.name).agent
        kind = kind_of(type(agent))
        if kind == "reference":
            assert isinstance(agent, ReferenceAgent)
            self.privileged.add(seat.name)
            reference = await episode.reference(seat.name)
            if not reference:
                raise TaskError(f"task {self._sample.task_ref.id!r} has no reference solution to play", retryable=False)
            return await timed(agent.play_reference, agent.play_reference(seat, reference))
        if kind == "sample":
            assert isinstance(agent, SampleAgent)
            return await agent.play_sample(seat, self._sample.rollout_id)
        if kind in ("exposed", "listening"):
            return await self._expose(agent, seat)
        return await timed(agent.play, agent.play(seat))

    async def _expose(self, agent: Agent, seat: EpisodeSeat) -> Stop:
        context = self._sample.context
        if context.gateway is None:
            raise AgentError(f"agent {agent.name!r} plays from outside, and this run opens no gateway")
        async with context.gateway.expose(seat, context.host.info, context.deadlines.close) as address:
            if isinstance(agent, ListeningAgent):
                return await agent.play_listening(seat, address)
            assert isinstance(agent, ExposedAgent)
            return await agent.play_exposed(seat, address)
