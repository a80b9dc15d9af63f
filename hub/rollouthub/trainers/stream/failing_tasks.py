"""Tasks of which nothing but faults came: too often, and they are set aside."""

from collections import Counter

from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass

MOST_STRIKES = 2
"""Visits in which every sample broke, before a task is set aside."""
_BROKEN = ("infrastructure_fault", "verifier_fault")


class FailingTasks:
    """Counts, by task, the visits in which every sample broke."""

    def __init__(self) -> None:
        self._strikes: Counter[tuple[str, str, str]] = Counter()

    def strike(self, unit: PendingGroup) -> bool:
        """Count a unit against its task, where all of it broke; whether that sets the task aside."""
        if not all(record.outcome.kind in _BROKEN for record in unit.records):
            return False
        self._strikes[unit.ticket.task] += 1
        return self._strikes[unit.ticket.task] == MOST_STRIKES

    def are_out(self, ticket: TaskPass) -> bool:
        """Whether a task is not to be played any more."""
        return bool(self._strikes) and self._strikes[ticket.task] >= MOST_STRIKES
