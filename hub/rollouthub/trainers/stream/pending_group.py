"""A unit of supply while it is played: one visit to a task, and what came of each of its samples."""

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
    """One visit to a task: the right to play its samples once."""

    cast: SampleContext
    card: TaskCard
    epoch: int = 0
    visit: int = 0
    """How often its rollouts were thrown away as stale in this epoch."""
    sample: int | None = None
    """The only one to play; None plays all."""

    @property
    def task(self) -> tuple[str, str, str]:
        """Names the task, whatever the visit."""
        return self.cast.environment.name, self.card.split, self.card.public.id

    def again(self, sample: int | None) -> "TaskPass":
        """The next visit, of one sample or of all."""
        return replace(self, visit=self.visit + 1, sample=sample)

    def alone(self, sample: int) -> "TaskPass":
        """The visit, of one sample."""
        return replace(self, sample=sample)

    def items(self, opened: OpenPlan, samples: int) -> Iterator[Sample]:
        """The samples to play, so many of a whole group. Those of the first visit are those that `hub run` would play.

        Later visits have seeds of their own, so that ids differ and nothing is drawn twice alike.
        """
        for number in range(samples) if self.sample is None else (self.sample,):
            if not self.epoch and not self.visit:
                yield opened.sample(self.cast, self.card, number)
                continue
            mark = f"{self.epoch}\0{self.visit}"
            seed = seed_of("\0".join((str(opened.plan.seed), *self.task, mark)))
            item = opened.sample(self.cast, self.card, number, seed)
            if item.policy_seed is not None:
                item = replace(item, policy_seed=seed_of(f"{item.policy_seed}\0{mark}"))
            yield item


@dataclass(slots=True)
class _Sample:
    record: Rollout | None = None
    is_settled: bool = False
    uncommitted: set[int] = field(default_factory=set[int])
    """Attempts handed to the store that are not durable yet."""
    attempts: int = 0
    """Handed to the store."""
    is_decided: bool = False
    """Whether one of them is its result."""

    @property
    def is_finished(self) -> bool:
        return self.is_settled and not self.uncommitted


class PendingGroup:
    """The samples of a visit that are handed out together: a whole group, or one alone."""

    def __init__(self, ticket: TaskPass, items: list[Sample], *, is_group: bool, size: int | None = None) -> None:
        """`size` is how many scored samples make it whole, if not all."""
        first = items[0]
        self.ticket, self.items = ticket, items
        self.unit_id = first.group_id if is_group else first.rollout_id
        self.sample = None if is_group else first.sample
        self.group_id = first.group_id
        self.environment: EnvironmentRef = first.cast.environment
        self.task: TaskRef = first.task_ref
        self._samples = {item.rollout_id: _Sample() for item in items}
        self.size = len(items) if size is None else size
        self.began = 0
        """The policy's version when it did."""
        self._left = len(self._samples)
        self._scored = 0

    @property
    def rollout_ids(self) -> list[str]:
        """By sample."""
        return list(self._samples)

    @property
    def is_finished(self) -> bool:
        """Whether it is whole, or nothing more comes of any sample; and all that counts is durable."""
        return self._left == 0 or (self._scored >= self.size and self.size < len(self._samples))

    @property
    def unsettled(self) -> list[str]:
        """Samples of which more may come."""
        return [rollout_id for rollout_id, sample in self._samples.items() if not sample.is_settled]

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample were handed to the store."""
        return self._samples[rollout_id].attempts

    @property
    def is_settled(self) -> bool:
        """Whether no further attempt at any sample follows."""
        return not self.unsettled

    @property
    def records(self) -> list[Rollout]:
        """What came of the samples, in their order; those without any record are left out."""
        return [sample.record for sample in self._samples.values() if sample.record is not None]

    def entry(self, fate: Fate, version: int, scored: Sequence[Rollout]) -> LedgerEntry:
        """What became of it at a version of the policy, and of which versions what was scored is."""
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
            visit=self.ticket.visit,
            fate=fate,
            version=version,
            scored=len(scored),
            policy_min=min(oldest, default=None),
            policy_max=max(newest, default=None),
        )

    def is_decided(self, rollout_id: str) -> bool:
        """Whether a sample's result was handed to the store."""
        return self._samples[rollout_id].is_decided

    def added(self, rollout: Rollout) -> None:
        """A record was handed to the store. Handed over twice, it counts once."""
        sample, attempt = self._samples[rollout.rollout_id], rollout.attempt
        sample.is_decided |= rollout.outcome in DECIDED
        sample.attempts = max(sample.attempts, attempt + 1)
        if not sample.is_finished and (sample.record is None or sample.record.attempt < attempt):
            sample.uncommitted.add(attempt)

    def committed(self, rollout: Rollout) -> None:
        """A record is durable."""
        sample = self._samples[rollout.rollout_id]
        was_finished = sample.is_finished
        if sample.record is None or sample.record.outcome not in DECIDED:
            sample.record = rollout
            self._scored += rollout.outcome is Outcome.SCORED
        sample.uncommitted.discard(rollout.attempt)
        self._left -= sample.is_finished and not was_finished

    def settled(self, rollout_id: str) -> None:
        """No further attempt at a sample follows."""
        sample = self._samples[rollout_id]
        was_finished, sample.is_settled = sample.is_finished, True
        self._left -= sample.is_finished and not was_finished


def seed_of(text: str) -> int:
    """A seed of 31 bits, as the engine's are."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
