"""Tasks whose samples all failed by infrastructure or verifier faults, repeatedly: they are not played any more."""

from collections import Counter

from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass

MOST_BROKEN_PASSES = 2
"""Passes with only faulty samples after which a task is not played any more."""
_BROKEN = ("infrastructure_fault", "verifier_fault")


class FailingTasks:
    """Counts, for each task, the passes in which every sample ended with an infrastructure or verifier fault."""

    def __init__(self) -> None:
        self._broken_passes: Counter[tuple[str, str, str]] = Counter()

    def count(self, unit: PendingGroup) -> bool:
        """Count a unit against its task if all its samples were faulty. Returns True when the task reaches the limit
        with this unit.
        """
        if not all(record.outcome.kind in _BROKEN for record in unit.records):
            return False
        self._broken_passes[unit.ticket.task] += 1
        return self._broken_passes[unit.ticket.task] == MOST_BROKEN_PASSES

    def are_out(self, ticket: TaskPass) -> bool:
        """Whether a task is not to be played any more."""
        return bool(self._broken_passes) and self._broken_passes[ticket.task] >= MOST_BROKEN_PASSES
