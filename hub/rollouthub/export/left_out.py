"""Counts the rollouts that a data set leaves out, by reason, so that none is missing unexplained."""

from collections import Counter

from rollouthub.export.not_trainable import RefusalReason


class LeftOut:
    """Counts left-out rollouts by reason, and remembers one example of each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        """For each reason, the first rollout and its explanation."""

    def add(self, name: str, rollout_id: str, reason: str) -> None:
        """Count one rollout that is left out."""
        self.counts[name] += 1
        self.examples.setdefault(name, f"{rollout_id}: {reason}" if rollout_id else reason)

    def refuse(self, refused: RefusalReason) -> None:
        """Count a rollout that must not be trained on."""
        self.add(refused.refusal.value, refused.rollout_id, refused.reason)

    @property
    def total(self) -> int:
        """The number of rollouts left out."""
        return self.counts.total()
