"""Plays one attempt: set up, act, seal, verify, close; whatever happens, a record comes out."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence

import anyio

from rollouthub.engine.agent_kind import part_of, why_deaf
from rollouthub.engine.attribution import OUTCOMES, decisive, fault_of, is_overrun
from rollouthub.engine.recorder import Recorder
from rollouthub.engine.sample import Sample
from rollouthub.engine.seat import EpisodeSeat
from rollouthub.engine.trainable import missing_arrays, why_not_trainable
from rollouthub.errors import (
    AgentError,
    EpisodeError,
    EpisodeStop,
    NotOffered,
    TaskError,
    VerifierError,
)
from rollouthub.event_loop import timed
from rollouthub.limits import Limits, charged
from rollouthub.protocols import (
    Agent,
    Episode,
    ExposedAgent,
    ReferenceAgent,
    SampleAgent,
)
from rollouthub.rollout import (
    Fault,
    Outcome,
    Phase,
    Rollout,
    Stop,
    Timings,
)
from rollouthub.sandbox import Sandbox, SandboxRef
from rollouthub.score import ModelCall, Score, Submission
from rollouthub.store import LiveState
from rollouthub.store.run_facts import State
from rollouthub.tracing import TRACEPARENT, untraced

logger = logging.getLogger(__name__)

_AS_IT_IS = contextlib.nullcontext()
SETUP_SECONDS = 0.1
"""A set-up that took longer does not count against the episode's deadline: images are built in nobody's time."""


class Attempt:
    """One attempt at an item, while it runs."""

    def __init__(self, item: Sample, number: int, queued: float, track: "Callable[[Attempt], None]") -> None:
        self.item, self.number = item, number
        self.recorder = Recorder()
        self.state: State = "queued"
        self.limits = item.cast.limits
        """Those in force, see `retune`."""
        self.episode: Episode | None = None
        """What is played; None before it is set up, and once it is over."""
        self._queued, self._track = queued, track
        self._started_at = time.time()
        self._phase: Phase = "setup"
        self._stages = {"setup": 0.0, "agent": 0.0, "verify": 0.0, "close": 0.0}
        self._faults: list[Fault] = []
        self._decisive: Outcome | None = None
        self._stop = Stop.FAILED
        self._score: Score | None = None
        self._answer: str | None = None
        self._is_privileged = False
        self._role_calls: Sequence[ModelCall] = ()
        self._sandboxes: Sequence[SandboxRef] = ()
        self._seats: list[EpisodeSeat] = []
        self._all: anyio.CancelScope | None = None
        self._acting: anyio.CancelScope | None = None
        self._acting_since = 0.0
        self._is_interrupted = self._is_cancelled = False
        self._told_early: list[str] = []
        """What was said before there was a seat."""
        tracer = item.cast.tracer
        self._trace = None if tracer is None else tracer.begin(item.cast.tool_names)

    def where(self) -> LiveState:
        """Where the attempt is now."""
        item, recorder = self.item, self.recorder
        return LiveState(
            rollout_id=item.rollout_id,
            environment=item.cast.environment.name,
            task_id=item.task_ref.id,
            sample=item.sample,
            attempt=self.number,
            state=self.state,
            turn=len(recorder.turns),
            output_tokens=recorder.output_tokens,
            updated_at=time.time(),
        )

    def _on_state(self, state: State) -> None:
        self.state = state
        self._track(self)

    async def play(self) -> Rollout:
        """Play to the end; never raises for what a boundary did. Cancellation passes through, see `cancelled`."""
        deadlines = self.item.cast.deadlines
        hard = self._all = anyio.move_on_after(deadlines.episode)
        try:
            with hard, charged(hard):
                await self._play()
        except EpisodeError as error:
            self._fail(error)
        except NotOffered as error:
            self._fail(TaskError(str(error), retryable=False))
        self._all = self.episode = None
        if self._is_cancelled:
            return self.cancelled()
        if hard.cancelled_caught:
            self._fail(TaskError(f"the episode was not over after {deadlines.episode:g} s", retryable=True))
        return self._record()

    def cancelled(self) -> Rollout:
        """The record of an attempt that was cut short from outside."""
        self._stop = Stop.CANCELLED
        self._decisive, self._score = Outcome.CANCELLED, None
        return self._record()

    def broken(self, error: EpisodeError) -> Rollout:
        """The record of an attempt that could not be played, or whose player is gone."""
        self._fail(error)
        return self._record()

    def cancel(self) -> bool:
        """End it now, unscored and recorded as cancelled; False where there is a verdict already."""
        if self._all is None or self._phase == "close":
            return False
        self._is_cancelled = True
        self._all.cancel()
        return True

    def interrupt(self) -> bool:
        """End the agent's time now; what it has done is verified and scored. False where its time is over already."""
        if self._phase != "setup" and self._acting is None:
            return False
        self._is_interrupted = True
        if self._acting is not None:
            self._acting.cancel()
        return True

    def retune(self, limits: Limits) -> None:
        """Go on under other limits; the record says which. The limit of one response stays as it was."""
        self.limits = limits
        for seat in self._seats:
            seat.relimit(limits)
        if self._acting is not None:
            self._acting.deadline = self._acting_since + self._acting_seconds()[0]

    @property
    def homes(self) -> list[Sandbox]:
        """The sandboxes of its players' own."""
        return [seat.home for seat in self._seats if seat.home is not None]

    @property
    def deaf(self) -> str | None:
        """Why nothing can be said to its agent; None where something can."""
        return why_deaf(self.item.cast)

    def tell(self, text: str) -> bool:
        """Say something to the agent as its user, at every seat. False where its time is over already."""
        if self._phase != "setup" and self._acting is None:
            return False
        if not self._seats:
            self._told_early.append(text)
            return True
        heard = [seat.tell(text) for seat in self._seats]
        return any(heard)

    async def _play(self) -> None:
        item = self.item
        cast = item.cast
        self._on_state("setup")
        if self._trace is not None:
            TRACEPARENT.set(self._trace.parent)
        clock = _Clock(self._stages)
        async with cast.host.open(item.task, seed=item.seed, deadlines=cast.deadlines) as episode:
            self.episode = episode
            self._role_calls, self._sandboxes = episode.role_calls, episode.sandboxes
            clock.end("setup")
            if self._all is not None and self._stages["setup"] >= SETUP_SECONDS:
                self._all.deadline = anyio.current_time() + cast.deadlines.episode
            self._phase = "agent"
            try:
                with _AS_IT_IS if self._trace is None else untraced():
                    await self._act(episode)
            except EpisodeError as error:
                # The agent may have tripped over what the environment broke: that counts before its own failure.
                with contextlib.suppress(EpisodeError):
                    await episode.seal()
                if not is_overrun(error, episode.faults):
                    self._adopt(episode)
                    raise
                self._faults.append(fault_of(error, "agent"))
            finally:
                clock.end("agent")
            if self._stop is Stop.CANCELLED:
                self._is_cancelled = True  # whoever played takes it back
                return
            self._phase = "verify"
            self._on_state("verify")
            try:
                self._score = await episode.conclude(self._submission(episode))
            finally:
                clock.end("verify")
                self._adopt(episode)
            if self._score is None and self._decisive is None:
                raise VerifierError("the verifier gave no score, and the environment no reason")
            self._phase = "close"
            self._on_state("close")
            try:
                await episode.close()
            except EpisodeError as error:
                # The verdict stands: the world was only slow or rude in leaving.
                self._faults.append(fault_of(error, "close"))
            clock.end("close")

    async def _act(self, episode: Episode) -> None:
        if self._is_interrupted:
            self._stop = Stop.INTERRUPTED
            return
        self._acting_since = anyio.current_time()
        scope = self._acting = anyio.move_on_after(self._acting_seconds()[0])
        try:
            with scope, charged(scope):
                names = list(episode.seats)
                if len(names) == 1:
                    self._stop = await self._take_seat(names[0], episode)
                else:
                    self._stop = await self._take_seats(names, episode)
        finally:
            self._acting = None
            self._seats.clear()  # they hold this attempt: a circle would keep it until the garbage is collected
        if scope.cancelled_caught:
            seconds, is_limit = self._acting_seconds()
            if episode.is_sealed:
                self._stop = Stop.SUBMITTED
            elif self._is_interrupted:
                self._stop = Stop.INTERRUPTED
            elif is_limit:
                self._stop = Stop.TIME_LIMIT
            else:
                raise AgentError(f"the agent had not stopped after {seconds:g} s")

    def _acting_seconds(self) -> tuple[float, bool]:
        """How long the agent may act, and whether that is a limit; else it is the deadline."""
        limit, deadline = self.limits.max_seconds, self.item.cast.deadlines.agent
        return (limit, True) if limit is not None and limit <= deadline else (deadline, False)

    async def _take_seats(self, names: list[str], episode: Episode) -> Stop:
        """Let every seat play at once; the episode stops for the first reason in the order of seats."""
        stops: dict[str, Stop] = {}
        broken: BaseExceptionGroup[EpisodeError] | None = None

        async def take(name: str) -> None:
            stops[name] = await self._take_seat(name, episode)

        try:
            async with anyio.create_task_group() as seats:
                for name in names:
                    seats.start_soon(take, name)
        except* EpisodeError as group:
            broken = group
        if broken is not None:  # Python before 3.11.4 makes a group of one of what is raised in `except*`
            raise decisive(broken) from broken
        return next((stops[name] for name in names if stops[name] is not Stop.FINISHED), Stop.FINISHED)

    async def _take_seat(self, name: str, episode: Episode) -> Stop:
        item = self.item
        cast = item.cast
        sampling = cast.sampling
        if item.policy_seed is not None and sampling.seed is None:
            sampling = sampling.model_copy(update={"seed": item.policy_seed})
        seat = EpisodeSeat(
            name,
            episode,
            self.recorder,
            cast.model,
            sampling,
            self.limits,
            cast.deadlines.model_call,
            item.rollout_id,
            self._on_state,
            self._trace,
        )
        self._seats.append(seat)
        for text in self._told_early:
            seat.tell(text)
        try:
            stop = await self._choose(seat, episode)
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
            logger.exception("agent %r failed in %s", cast.agent.name, item.rollout_id)
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

    async def _choose(self, seat: EpisodeSeat, episode: Episode) -> Stop:
        agent = self.item.cast.agent
        part = part_of(type(agent))
        if part == "reference":
            assert isinstance(agent, ReferenceAgent)
            self._is_privileged = True
            reference = await episode.reference()
            if not reference:
                raise TaskError(f"task {self.item.task_ref.id!r} has no reference solution to play", retryable=False)
            return await timed(agent.play_reference, agent.play_reference(seat, reference))
        if part == "sample":
            assert isinstance(agent, SampleAgent)
            return await agent.play_sample(seat, self.item.rollout_id)
        if part == "exposed":
            return await self._expose(agent, seat)
        return await timed(agent.play, agent.play(seat))

    async def _expose(self, agent: Agent, seat: EpisodeSeat) -> Stop:
        cast = self.item.cast
        assert isinstance(agent, ExposedAgent)
        if cast.gateway is None:
            raise AgentError(f"agent {agent.name!r} plays from outside, and this run opens no gateway")
        async with cast.gateway.expose(seat, cast.host.info, cast.deadlines.close) as address:
            return await agent.play_exposed(seat, address)

    def _submission(self, episode: Episode) -> Submission:
        first = next(iter(episode.seats))
        return Submission(answer=episode.answer, transcript=self.recorder.transcript(first), stop=self._stop.value)

    def _adopt(self, episode: Episode) -> None:
        """Take over what the environment noted: the answer, and its faults."""
        self._answer = episode.answer
        if self._stop is Stop.SUBMITTED and episode.faults and episode.answer is None:
            self._stop = Stop.FAILED  # what broke sealed it, not the agent
        for fault in episode.faults:
            self._faults.append(fault)
            if fault.boundary != "agent" or self._score is None:
                self._decisive = self._decisive or OUTCOMES[fault.boundary]

    def _fail(self, error: EpisodeError) -> None:
        fault = fault_of(error, self._phase)
        self._faults.append(fault)
        if self._score is None:
            self._decisive = self._decisive or OUTCOMES[fault.boundary]

    def _record(self) -> Rollout:
        item = self.item
        cast = item.cast
        turns = tuple(turn.close() for turn in self.recorder.turns)
        outcome = self._decisive or Outcome.SCORED
        score = self._score if outcome is Outcome.SCORED else None
        spans = [span for turn in turns if (span := turn.version_span) is not None]
        reason = why_not_trainable(
            outcome, turns, self._is_privileged, is_told=bool(self.recorder.told), suspect=score and score.suspect
        )
        stages = self._stages
        rollout = Rollout(
            run_id=cast.run_id,
            rollout_id=item.rollout_id,
            group_id=item.group_id,
            sample=item.sample,
            attempt=self.number,
            environment=cast.environment,
            task=item.task_ref,
            seed=item.seed,
            agent=cast.agent_ref,
            model=cast.model.name if cast.model else None,
            tools_digest=cast.host.info.tools_digest,
            other_tools=self.recorder.other_tools,
            outcome=outcome,
            stop=self._stop,
            score=score,
            answer=self._answer,
            turns=turns,
            role_calls=tuple(self._role_calls),
            timings=Timings(
                queue=self._queued,
                setup=stages["setup"],
                agent=stages["agent"],
                model=self.recorder.model_seconds,
                tool=self.recorder.tool_seconds,
                verify=stages["verify"],
                close=stages["close"],
                total=self.recorder.now(),
            ),
            started_at=self._started_at,
            faults=tuple(self._faults),
            isolation=cast.host.info.isolation,
            retuned=None if self.limits is cast.limits else self.limits,
            told=tuple(self.recorder.told),
            sandboxes=tuple(self._sandboxes),
            policy_version_min=min((oldest for oldest, _ in spans), default=None),
            policy_version_max=max((newest for _, newest in spans), default=None),
            trainable=reason is None,
            trainable_reason=reason,
            gaps=(*missing_arrays(turns), *sorted(self.recorder.lost)),
        )
        if self._trace is not None:
            self._trace.end(rollout)
        return rollout

    @property
    def media(self) -> Mapping[str, bytes]:
        """Digest → bytes of what the episode showed."""
        return self.recorder.media


class _Clock:
    """Splits time into stages: each `end` takes the time since the one before."""

    def __init__(self, stages: dict[str, float]) -> None:
        self._stages = stages
        self._last = time.perf_counter()

    def end(self, stage: str) -> None:
        now = time.perf_counter()
        self._stages[stage] += now - self._last
        self._last = now
