"""A unit of supply while it is played: one visit to a task, and what came of each of its samples."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import blake2b

from envhub.engine.item import Cast, Item
from envhub.engine.open_plan import OpenPlan
from envhub.protocols import TaskCard
from envhub.rollout import EnvironmentRef, Outcome, Rollout, TaskRef

_DECIDED = (Outcome.SCORED, Outcome.AGENT_FAILED)
"""Outcomes that no later attempt changes, as in the store."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """One visit to a task: the right to play its samples once."""

    cast: Cast
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

    def again(self, sample: int | None) -> "Ticket":
        """The next visit, of one sample or of all."""
        return replace(self, visit=self.visit + 1, sample=sample)

    def alone(self, sample: int) -> "Ticket":
        """The visit, of one sample."""
        return replace(self, sample=sample)

    def items(self, opened: OpenPlan) -> Iterator[Item]:
        """The samples to play. Those of the first visit are the ones that `hub run` would play.

        Later visits have seeds of their own, so that ids differ and nothing is drawn twice alike.
        """
        for number in range(opened.plan.request.repeats) if self.sample is None else (self.sample,):
            if not self.epoch and not self.visit:
                yield opened.sample(self.cast, self.card, number)
                continue
            mark = f"{self.epoch}\0{self.visit}"
            seed = _seed("\0".join((str(opened.plan.seed), *self.task, mark)))
            item = opened.sample(self.cast, self.card, number, seed)
            if item.policy_seed is not None:
                item = replace(item, policy_seed=_seed(f"{item.policy_seed}\0{mark}"))
            yield item


@dataclass(slots=True)
class _Sample:
    record: Rollout | None = None
    is_settled: bool = False
    uncommitted: set[int] = field(default_factory=set[int])
    """Attempts handed to the store that are not durable yet."""

    @property
    def is_finished(self) -> bool:
        return self.is_settled and not self.uncommitted


class Unit:
    """The samples of a visit that are handed out together: a whole group, or one alone."""

    def __init__(self, ticket: Ticket, items: list[Item], *, is_group: bool) -> None:
        first = items[0]
        self.ticket, self.items = ticket, items
        self.unit_id = first.group_id if is_group else first.rollout_id
        self.sample = None if is_group else first.sample
        self.group_id = first.group_id
        self.environment: EnvironmentRef = first.cast.environment
        self.task: TaskRef = first.task_ref
        self._samples = {item.rollout_id: _Sample() for item in items}
        self._left = len(self._samples)

    @property
    def rollout_ids(self) -> list[str]:
        """By sample."""
        return list(self._samples)

    @property
    def is_finished(self) -> bool:
        """Whether nothing more comes of any sample, and all that came is durable."""
        return self._left == 0

    @property
    def records(self) -> list[Rollout]:
        """What came of the samples, in their order; those without any record are left out."""
        return [sample.record for sample in self._samples.values() if sample.record is not None]

    def added(self, rollout_id: str, attempt: int) -> None:
        """A record was handed to the store. Handed over twice, it counts once."""
        sample = self._samples[rollout_id]
        if not sample.is_finished and (sample.record is None or sample.record.attempt < attempt):
            sample.uncommitted.add(attempt)

    def committed(self, rollout: Rollout) -> None:
        """A record is durable."""
        sample = self._samples[rollout.rollout_id]
        was_finished = sample.is_finished
        if sample.record is None or sample.record.outcome not in _DECIDED:
            sample.record = rollout
        sample.uncommitted.discard(rollout.attempt)
        self._left -= sample.is_finished and not was_finished

    def settled(self, rollout_id: str) -> None:
        """No further attempt at a sample follows."""
        sample = self._samples[rollout_id]
        was_finished, sample.is_settled = sample.is_finished, True
        self._left -= sample.is_finished and not was_finished


def _seed(text: str) -> int:
    """A seed of 31 bits, as the engine's are."""
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "little") >> 1
