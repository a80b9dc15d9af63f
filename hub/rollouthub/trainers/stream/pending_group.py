"""One pass over a task's samples while it is played, and the result of each sample."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from rollouthub.engine.open_plan import OpenPlan
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.protocols import TaskCard
from rollouthub.rollout import EnvironmentRef, Outcome, Rollout, TaskRef
from rollouthub.trainers.stream.ledger import Fate, LedgerEntry

DECIDED = (Outcome.SCORED, Outcome.AGENT_FAILED)
"""Outcomes that no later attempt changes, as in the store."""


@dataclass(frozen=True, slots=True)
class TaskPass:
    """One pass over a task, in which each of its samples is played once."""

    context: SampleContext
    card: TaskCard
    epoch: int = 0
    pass_number: int = 0
    """How often the task's rollouts were dropped as stale before in this epoch."""
    sample: int | None = None
    """The only sample to play; None plays all."""

    @property
    def task(self) -> tuple[str, str, str]:
        """Environment name, split and task id, the same for each pass."""
        return self.context.environment.name, self.card.split, self.card.public.id

    def again(self, sample: int | None) -> "TaskPass":
        """The next pass, over one sample or (None) over all."""
        return replace(self, pass_number=self.pass_number + 1, sample=sample)

    def alone(self, sample: int) -> "TaskPass":
        """The same pass, restricted to one sample."""
        return replace(self, sample=sample)

    def items(self, opened: OpenPlan, samples: int) -> Iterator[Sample]:
        """The samples to play; `samples` is how many make a group. Those of the first pass are the samples that `hub
        run` would play.

        Later passes have seeds of their own, so that their ids and draws differ from the first's.
        """
        for number in range(samples) if self.sample is None else (self.sample,):
            if not self.epoch and not self.pass_number:
                yield opened.sample(self.context, self.card, number, group_size=samples)
                continue
            mark = f"{self.epoch}\0{self.pass_number}"
            seed = seed_of("\0".join((str(opened.plan.seed), *self.task, mark)))
            sample = opened.sample(self.context, self.card, number, seed, group_size=samples)
            if sample.policy_seed is not None:
                sample = replace(sample, policy_seed=seed_of(f"{sample.policy_seed}\0{mark}"))
            yield sample


@dataclass(slots=True)
class _Sample:
    record: Rollout | None = None
    is_settled: bool = False
    uncommitted: set[int] = field(default_factory=set[int])
    """Attempt numbers that were queued for the store and are not durable yet."""
    attempts: int = 0
    """How many attempts were queued for the store."""
    is_decided: bool = False
    """Whether one of the attempts is the sample's final result."""

    @property
    def is_finished(self) -> bool:
        return self.is_settled and not self.uncommitted


class PendingGroup:
    """The samples of a pass that are handed out together: a whole group, or a single sample."""

    def __init__(self, ticket: TaskPass, items: list[Sample], *, is_group: bool, size: int | None = None) -> None:
        """`size` is the number of scored samples that complete the unit; by default all."""
        first = items[0]
        self.ticket, self.items = ticket, items
        self.unit_id = first.group_id if is_group else first.rollout_id
        self.sample = None if is_group else first.index
        self.group_id = first.group_id
        self.environment: EnvironmentRef = first.context.environment
        self.task: TaskRef = first.task_ref
        self._samples = {sample.rollout_id: _Sample() for sample in items}
        self.size = len(items) if size is None else size
        self.began = 0
        """The policy version when the unit was begun."""
        self._left = len(self._samples)
        self._scored = 0

    @property
    def rollout_ids(self) -> list[str]:
        """The rollout ids in the order of the samples."""
        return list(self._samples)

    @property
    def is_finished(self) -> bool:
        """Whether the unit is complete, or every sample is settled; all records that count are durable."""
        return self._left == 0 or (self._scored >= self.size and self.size < len(self._samples))

    @property
    def unsettled(self) -> list[str]:
        """Rollout ids of samples that may get further attempts."""
        return [rollout_id for rollout_id, sample in self._samples.items() if not sample.is_settled]

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample were queued for the store."""
        return self._samples[rollout_id].attempts

    @property
    def is_settled(self) -> bool:
        """Whether no further attempt at any sample follows."""
        return not self.unsettled

    @property
    def records(self) -> list[Rollout]:
        """The record of each sample, in their order; samples without a record are left out."""
        return [sample.record for sample in self._samples.values() if sample.record is not None]

    def entry(self, fate: Fate, version: int, scored: Sequence[Rollout]) -> LedgerEntry:
        """The ledger entry of the unit: how it ended, at which policy version, and the versions in the rollouts
        `scored`.
        """
        environment, split, task_id = self.ticket.task
        oldest = [each.policy_version_min for each in scored if each.policy_version_min is not None]
        newest = [each.policy_version_max for each in scored if each.policy_version_max is not None]
        return LedgerEntry(
            unit_id=self.unit_id,
            group_id=self.group_id,
            environment=environment,
            split=split,
            task_id=task_id,
            sample=self.sample,
            epoch=self.ticket.epoch,
            visit=self.ticket.pass_number,
            fate=fate,
            version=version,
            scored=len(scored),
            policy_min=min(oldest, default=None),
            policy_max=max(newest, default=None),
        )

    def is_decided(self, rollout_id: str) -> bool:
        """Whether a sample's final result was queued for the store."""
        return self._samples[rollout_id].is_decided

    def added(self, rollout: Rollout) -> None:
        """Register a record that was queued for the store; a repeated one counts once."""
        sample, attempt = self._samples[rollout.rollout_id], rollout.attempt
        sample.is_decided |= rollout.outcome in DECIDED
        sample.attempts = max(sample.attempts, attempt + 1)
        if not sample.is_finished and (sample.record is None or sample.record.attempt < attempt):
            sample.uncommitted.add(attempt)

    def committed(self, rollout: Rollout) -> None:
        """Register that a record is durable."""
        sample = self._samples[rollout.rollout_id]
        was_finished = sample.is_finished
        if sample.record is None or sample.record.outcome not in DECIDED:
            sample.record = rollout
            self._scored += rollout.outcome is Outcome.SCORED
        sample.uncommitted.discard(rollout.attempt)
        self._left -= sample.is_finished and not was_finished

    def settled(self, rollout_id: str) -> None:
        """Register that no further attempt at a sample follows."""
        sample = self._samples[rollout_id]
        was_finished, sample.is_settled = sample.is_finished, True
        self._left -= sample.is_finished and not was_finished


def seed_of(text: str) -> int:
    """A seed of 31 bits from a text, in the engine's range."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
