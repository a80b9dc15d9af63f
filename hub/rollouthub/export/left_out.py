"""What a data set leaves out, counted by name: no rollout is missing without a word."""

from collections import Counter

from rollouthub.export.not_trainable import RefusalReason


class LeftOut:
    """Counts rollouts by the name of what kept them out, and remembers one of each."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        """By name: the first rollout and what was said of it."""

    def add(self, name: str, rollout_id: str, reason: str) -> None:
        """Count one."""
        self.counts[name] += 1
        self.examples.setdefault(name, f"{rollout_id}: {reason}" if rollout_id else reason)

    def refuse(self, refused: RefusalReason) -> None:
        """Count one that must not be learnt from."""
        self.add(refused.refusal.value, refused.rollout_id, refused.reason)

    @property
    def total(self) -> int:
        """How many rollouts."""
        return self.counts.total()
