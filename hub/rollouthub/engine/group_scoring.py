"""Scores groups: rollouts of a group are stored as waiting until all samples of the group are over, then scored
together.

Pools do not know of groups: they hand over records and report settled samples, as in any run. The verdict is computed
once, in the run's own process, and committed for all members at once; a run that is killed before that computes the
verdict when it is resumed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from rollouthub.engine.group_verdict import group_of, group_verdict, lost_member, with_stored_contents
from rollouthub.engine.new_verdict import scored_again, without_verdict
from rollouthub.engine.run_request import Retries
from rollouthub.engine.sample import Sample
from rollouthub.engine.schedule import FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS
from rollouthub.engine.session import Session
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.errors import EpisodeError, StoreError, VerifierError
from rollouthub.hosting.local.submitted_contents import contents_in, judged_media, submissions_of
from rollouthub.models.batch_run import CALLER, Caller
from rollouthub.rollout import Outcome, Rollout
from rollouthub.score import LostMember, ModelCall, SampleGroup, Score
from rollouthub.store import RunWriter, open_run

_NONE: Mapping[str, bytes] = {}


@dataclass(slots=True)
class _OpenGroup:
    """A group of which at least one sample is over, and not all."""

    sample: Sample
    """Any of its samples; all share the task and the environment's seed."""
    waiting: dict[str, Rollout] = field(default_factory=dict[str, Rollout])
    lost: dict[str, LostMember] = field(default_factory=dict[str, LostMember])

    @property
    def is_complete(self) -> bool:
        return len(self.waiting) + len(self.lost) >= self.sample.group_size

    @property
    def members(self) -> list[Rollout]:
        return sorted(self.waiting.values(), key=lambda rollout: rollout.sample)


class GroupScoring:
    """Follows the groups of environments that score groups, from the first ended sample to the verdict."""

    def __init__(
        self,
        writer: RunWriter,
        directory: Path,
        retries: Retries,
        stop: StopSignal,
        tasks: TaskGroup,
        judged: Callable[[Sequence[Rollout], Sequence[ModelCall]], None],
        *,
        most: int,
    ) -> None:
        """`judged` is called with the members that got their verdict, and the model calls that the verdict took.

        While `most` verdicts are being computed, `wait` blocks, so that a slow judge slows the run down instead of
        filling the memory.
        """
        self._writer, self._retries, self._stop, self._tasks = writer, retries, stop, tasks
        self._directory, self._judged, self._most = directory, judged, most
        self._open: dict[str, _OpenGroup] = {}
        self._ended: dict[str, Rollout] = {}
        """Rollout id → the latest record of a sample that is not settled yet."""
        self._asking = 0
        self._changed = anyio.Event()

    def ended(self, rollout: Rollout) -> None:
        """Note the record of an attempt that is over; the sample may be tried again."""
        self._ended[rollout.rollout_id] = rollout

    async def wait(self) -> None:
        """Wait until fewer than `most` verdicts are being computed."""
        while self._asking >= self._most:
            await self._changed.wait()

    def settled(self, sample: Sample) -> None:
        """Add a sample that gets no further attempt to its group. In a run that stops, broken samples are left for
        `--resume`.
        """
        rollout = self._ended.pop(sample.rollout_id, None)
        if not sample.context.host.info.scores_groups or rollout is None:
            return
        is_undecided = rollout.outcome not in (Outcome.SCORED, Outcome.AGENT_FAILED)
        if not (is_undecided and self._stop.is_set):
            self._place(sample, rollout)

    def done_before(self, sample: Sample, rollout: Rollout) -> None:
        """Add a sample that was over before the run was resumed; `rollout` is its record."""
        if sample.context.host.info.scores_groups and not self._writer.is_judged(sample.group_id):
            self._place(sample, rollout)

    def withdrawn(self, sample: Sample) -> None:
        """Count a sample that will not be played among the lost members of its group."""
        if sample.context.host.info.scores_groups and not self._writer.is_judged(sample.group_id):
            self._place(sample, LostMember(sample=sample.index, outcome=Outcome.CANCELLED, reason="it was not played"))

    def _place(self, sample: Sample, member: Rollout | LostMember) -> None:
        played = member if isinstance(member, Rollout) and member.awaits_group else None
        if self._writer.is_judged(sample.group_id):
            self._conclude([] if played is None else [played], _late())
            return
        group = self._open.setdefault(sample.group_id, _OpenGroup(sample))
        if played is not None:
            group.waiting[sample.rollout_id] = played
        else:
            group.lost[sample.rollout_id] = lost_member(member) if isinstance(member, Rollout) else member
        if group.is_complete:
            del self._open[sample.group_id]
            if group.waiting:
                self._asking += 1
                self._tasks.start_soon(self._judge, group)

    async def _judge(self, group: _OpenGroup) -> None:
        try:
            await self._writer.flush()  # what was played outlasts whatever the verdict comes to
            asked = group_of(group.members, group.lost.values(), group.sample.context.host.info)
            if contents_in(submissions_of(asked)):
                asked = await anyio.to_thread.run_sync(self._with_contents, asked)
            verdict, media = await self._verdict(group, asked), dict[str, bytes]()
            if not isinstance(verdict, EpisodeError):
                media = await anyio.to_thread.run_sync(judged_media, verdict)
            self._conclude(group.members, verdict, media)
        except StoreError as error:
            self._stop.set(str(error))
        finally:
            self._asking -= 1
            changed, self._changed = self._changed, anyio.Event()
            changed.set()

    async def _verdict(self, group: _OpenGroup, asked: SampleGroup) -> Sequence[Score] | EpisodeError:
        """The members' scores, or the error, after as many retries as a broken verifier gets."""
        sample, tries = group.sample, 0
        host, deadlines = sample.context.host, sample.context.deadlines
        while True:
            CALLER.set(Caller(sample.group_id, tries))
            try:
                return await group_verdict(
                    host, sample.task, group.members, asked, seed=sample.seed, deadlines=deadlines
                )
            except EpisodeError as error:
                tries += 1
                if not error.retryable or tries > self._retries.verifier:
                    return error
                await anyio.sleep(min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (tries - 1)))

    def _with_contents(self, asked: SampleGroup) -> SampleGroup:
        with open_run(self._directory) as reader:
            return with_stored_contents(asked, reader)

    def _conclude(
        self, members: Sequence[Rollout], verdict: Sequence[Score] | EpisodeError, media: Mapping[str, bytes] = _NONE
    ) -> None:
        """Write the members' final records. There is no await in it, so all members are committed together."""
        if not members:
            return
        if isinstance(verdict, EpisodeError):
            final = [without_verdict(rollout, verdict) for rollout in members]
        else:
            # Held against what was played before.
            final = [
                scored_again(rollout, score, score.seat_rewards)
                for rollout, score in zip(members, verdict, strict=True)
            ]
        self._writer.conclude_group(final, media)
        own = {rollout.rollout_id: rollout.score.judge_calls for rollout in members if rollout.score is not None}
        calls = [
            call
            for rollout in final
            if rollout.score is not None
            for call in rollout.score.judge_calls[len(own.get(rollout.rollout_id, ())) :]
        ]
        self._judged(final, calls)


def _late() -> EpisodeError:
    return VerifierError("the verdict on its group was given without this sample", retryable=False)


def group_scoring(session: Session, tasks: TaskGroup) -> GroupScoring | None:
    """Start group scoring if any environment of the run scores groups, else return None; verdicts are computed in
    `tasks`.

    Leaving `tasks` waits for verdicts in progress. If they are cancelled, their members stay in the store as waiting.
    """
    opened, bounds, live = session.opened, session.bounds, session.live
    if not any(environment.host.info.scores_groups for environment in opened.environments):
        return None

    def judged(members: Sequence[Rollout], calls: Sequence[ModelCall]) -> None:
        for rollout in members:
            live.ended(rollout)
        if bounds is not None:
            bounds.asked(calls)

    request = opened.plan.request
    return GroupScoring(
        session.writer, session.directory, request.retries, session.stop, tasks, judged, most=request.concurrency
    )
