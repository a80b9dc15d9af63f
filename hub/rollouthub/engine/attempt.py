"""Plays one attempt: set up, act, seal, verify, close. Each attempt yields a record, whatever happens in it."""

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence

import anyio

from rollouthub.engine.agent_kind import why_no_interventions
from rollouthub.engine.agent_phase import AgentPhase
from rollouthub.engine.attribution import OUTCOMES, fault_of, is_overrun
from rollouthub.engine.placed_rewards import place_rewards, unmapped_spans, with_token_spans
from rollouthub.engine.recorder import Recorder
from rollouthub.engine.sample import Sample
from rollouthub.engine.trainable import missing_arrays, why_not_trainable
from rollouthub.errors import (
    EpisodeError,
    NotOffered,
    TaskError,
    VerifierError,
)
from rollouthub.limits import Limits, charged
from rollouthub.models.batch_run import CALLER, Caller
from rollouthub.protocols import Episode
from rollouthub.rollout import (
    UNKEPT,
    Fault,
    Outcome,
    Phase,
    Rollout,
    Stop,
    Timings,
    Turn,
    policy_turns,
    submitted_turn,
)
from rollouthub.sandbox import Sandbox, SandboxRef
from rollouthub.score import UNKEEPABLE, KeptArtifact, ModelCall, Score, Submission, SubmittedTurn
from rollouthub.store import LiveState
from rollouthub.store.run_facts import State
from rollouthub.tracing import TRACEPARENT, untraced

logger = logging.getLogger(__name__)

_AS_IT_IS = contextlib.nullcontext()
SETUP_SECONDS = 0.1
"""Seconds. If set-up took at least this long, the episode's deadline starts after it: building an image is not
counted.
"""


class Attempt:
    """One attempt at a sample, while it runs."""

    def __init__(self, sample: Sample, number: int, queued: float, track: "Callable[[Attempt], None]") -> None:
        self.sample, self.number = sample, number
        self.recorder = Recorder(wants_text_ends=sample.context.host.info.reads_turns)
        self.state: State = "queued"
        self.episode: Episode | None = None
        """The open episode; None before set-up and after the attempt."""
        self._queued, self._track = queued, track
        self._started_at = time.time()
        self._phase: Phase = "setup"
        self._stages = {"setup": 0.0, "agent": 0.0, "verify": 0.0, "close": 0.0}
        self._faults: list[Fault] = []
        self._decisive: Outcome | None = None
        self._stop = Stop.FAILED
        self._score: Score | None = None
        self._answer: str | None = None
        self._role_calls: Sequence[ModelCall] = ()
        self._artifacts: Sequence[KeptArtifact] = ()
        self._sandboxes: Sequence[SandboxRef] = ()
        self._all: anyio.CancelScope | None = None
        self._is_cancelled = False
        tracer = sample.context.tracer
        self._trace = None if tracer is None else tracer.begin(sample.context.tool_names)
        self._agents = AgentPhase(sample, self.recorder, self._trace)

    def where(self) -> LiveState:
        """The attempt's stage and counts now, in the form that the store saves."""
        recorder = self.recorder
        return self.sample.live_state(self.number, self.state, len(recorder.turns), recorder.output_tokens)

    def _on_state(self, state: State) -> None:
        self.state = state
        self._track(self)

    async def play(self) -> Rollout:
        """Play the attempt to its end. Errors of a boundary go into the record; cancellation is raised (see
        `cancelled`).
        """
        deadlines = self.sample.context.deadlines
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
        """The record of an attempt that could not be played, or whose worker is gone."""
        self._fail(error)
        return self._record()

    def cancel(self) -> bool:
        """End the attempt now, unscored and recorded as cancelled; False if it is not running or already has its
        verdict.
        """
        if self._all is None or self._phase == "close":
            return False
        self._is_cancelled = True
        self._all.cancel()
        return True

    @property
    def limits(self) -> Limits:
        """The limits in force now; `retune` replaces them."""
        return self._agents.limits

    @property
    def _is_agents_time(self) -> bool:
        """Whether the agent phase is running or still to come."""
        return self._phase == "setup" or self._agents.is_under_way

    def interrupt(self) -> bool:
        """End the agent phase now; what the agent did is verified and scored. False if the phase is already over."""
        if not self._is_agents_time:
            return False
        self._agents.interrupt()
        return True

    def retune(self, limits: Limits) -> None:
        """Replace the limits in force and record the new ones; the limit of tokens per response stays as it was."""
        self._agents.retune(limits)

    @property
    def homes(self) -> list[Sandbox]:
        """The agents' own sandboxes: one for each seat whose agent runs a program in a sandbox."""
        return [seat.home for seat in self._agents.seats if seat.home is not None]

    @property
    def why_no_interventions(self) -> str | None:
        """Why a person cannot send a message to its agents; None if at least one can receive it."""
        return why_no_interventions(self.sample.context)

    def intervene(self, text: str) -> bool:
        """Send a person's message to the agents at all seats; False if the agent phase is already over."""
        return self._is_agents_time and self._agents.intervene(text)

    async def _play(self) -> None:
        sample = self.sample
        context = sample.context
        self._on_state("setup")
        CALLER.set(Caller(sample.rollout_id, self.number, is_episode=True))
        if self._trace is not None:
            TRACEPARENT.set(self._trace.parent)
        clock = _Clock(self._stages)
        async with context.host.open(sample.task, seed=sample.seed, deadlines=context.deadlines) as episode:
            self.episode = episode
            self._role_calls, self._sandboxes = episode.role_calls, episode.sandboxes
            clock.end("setup")
            if self._all is not None and self._stages["setup"] >= SETUP_SECONDS:
                self._all.deadline = anyio.current_time() + context.deadlines.episode
            self._phase = "agent"
            try:
                with _AS_IT_IS if self._trace is None else untraced():
                    self._stop = await self._agents.play(episode, self._on_state)
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
                self._score = self._checked(await episode.conclude(self._submission(episode)), episode)
            finally:
                clock.end("verify")
                self._adopt(episode)
            self._keep_judged(self._score)
            if self._score is None and self._decisive is None and not context.host.info.scores_groups:
                raise VerifierError("the verifier gave no score, and the environment no reason")
            self._phase = "close"
            self._on_state("close")
            try:
                await episode.close()
            except EpisodeError as error:
                # The verdict stands: the world was only slow or rude in leaving.
                self._faults.append(fault_of(error, "close"))
            clock.end("close")

    def _submission(self, episode: Episode) -> Submission:
        first = next(iter(episode.seats))
        turns: tuple[SubmittedTurn, ...] = ()
        if self.sample.context.host.info.reads_turns:
            turns = tuple(submitted_turn(turn.close()) for turn in self.recorder.turns)
        transcript = self.recorder.transcript(first)
        return Submission(answer=episode.answer, transcript=transcript, turns=turns, stop=self._stop.value)

    def _checked(self, score: Score | None, episode: Episode) -> Score | None:
        """The score, after a check that its rewards name turns, tokens and seats of this attempt."""
        if score is not None and (score.turn_rewards or score.span_rewards or score.seat_rewards):
            place_rewards([turn.close() for turn in self.recorder.turns], score, episode.seats)
        return score

    def _keep_judged(self, score: Score | None) -> None:
        """Store the media that the environment's own models (judges, simulated users) were shown."""
        for call in (*self._role_calls, *(() if score is None else score.judge_calls)):
            self.recorder.keep_media(call.messages)

    def _adopt(self, episode: Episode) -> None:
        """Copy the episode's answer, artifacts and faults into the record."""
        self._answer = episode.answer
        self._artifacts = episode.artifacts
        for artifact in self._artifacts:
            self.recorder.media[artifact.ref.digest] = artifact.data
        if episode.missing_artifacts:
            self.recorder.lost.add("artifacts")
        if any(reason.startswith(UNKEEPABLE) for reason in episode.missing_artifacts):
            self.recorder.lost.add(UNKEPT)
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

    @property
    def _is_forfeited(self) -> bool:
        """Whether the agent destroyed its own sandbox: its score then stands, whatever the group's verdict would be."""
        return self._score is not None and any(fault.boundary == "agent" for fault in self._faults)

    def _why_not_trainable(self, outcome: Outcome, turns: Sequence[Turn], model: str | None) -> str | None:
        context = self.sample.context

        def is_policys(seat: str) -> bool:
            return seat not in context.seats or model is None

        return why_not_trainable(
            outcome,
            policy_turns(turns, context.seats, model),
            any(is_policys(seat) for seat in self._agents.privileged),
            failed=[seat for seat in self._agents.failed if is_policys(seat)],
            had_interventions=bool(self.recorder.interventions),
            suspect=self._score.suspect if self._score is not None and outcome is Outcome.SCORED else None,
        )

    def _timings(self) -> Timings:
        return Timings(
            queue=self._queued,
            model=self.recorder.model_seconds,
            tool=self.recorder.tool_seconds,
            total=self.recorder.now(),
            **self._stages,
        )

    def _record(self) -> Rollout:
        sample, recorder = self.sample, self.recorder
        context, info = sample.context, sample.context.host.info
        turns = tuple(turn.close() for turn in recorder.turns)
        outcome = self._decisive or Outcome.SCORED
        score = with_token_spans(turns, self._score) if outcome is Outcome.SCORED else None
        awaits_group = outcome is Outcome.SCORED and info.scores_groups and not self._is_forfeited
        if awaits_group:
            self._on_state("verify")
        is_seated = any(seat not in context.seats for seat in info.seats)
        model = context.model.name if context.model is not None and is_seated else None
        # An opponent's version says nothing of how old the policy's turns are.
        trained = policy_turns(turns, context.seats, model)
        spans = [span for turn in trained if (span := turn.version_span) is not None]
        reason = self._why_not_trainable(outcome, turns, model)
        rollout = Rollout(
            run_id=context.run_id,
            rollout_id=sample.rollout_id,
            group_id=sample.group_id,
            sample=sample.index,
            attempt=self.number,
            environment=context.environment,
            task=sample.task_ref,
            seed=sample.seed,
            agent=context.agent_ref,
            model=model,
            seats=sample.seat_refs,
            tools_digest=info.tools_digest,
            other_tools=recorder.other_tools,
            outcome=outcome,
            stop=self._stop,
            score=score,
            awaits_group=awaits_group,
            answer=self._answer,
            turns=place_rewards(turns, score, score and score.seat_rewards),
            role_calls=tuple(self._role_calls),
            timings=self._timings(),
            started_at=self._started_at,
            faults=(*self._agents.failed.values(), *self._faults),
            artifacts=tuple(each.ref for each in self._artifacts),
            isolation=info.isolation,
            openings=info.openings,
            retuned=None if self.limits is context.limits else self.limits,
            told=tuple(recorder.interventions),
            sandboxes=tuple(self._sandboxes),
            policy_version_min=min((oldest for oldest, _ in spans), default=None),
            policy_version_max=max((newest for _, newest in spans), default=None),
            trainable=reason is None,
            trainable_reason=reason,
            gaps=(*missing_arrays(turns), *unmapped_spans(turns, score), *sorted(recorder.lost)),
        )
        if self._trace is not None:
            self._trace.end(rollout)
        return rollout

    @property
    def media(self) -> Mapping[str, bytes]:
        """Digest → bytes of the episode's media and artifacts."""
        return self.recorder.media


class _Clock:
    """Divides an attempt's time into stages: each `end` adds the seconds since the previous `end` to its stage."""

    def __init__(self, stages: dict[str, float]) -> None:
        self._stages = stages
        self._last = time.perf_counter()

    def end(self, stage: str) -> None:
        now = time.perf_counter()
        self._stages[stage] += now - self._last
        self._last = now
