"""Money of one budget, spent by many workers: each may spend a part at a time, and together they never overspend."""

from collections.abc import Mapping
from dataclasses import dataclass

_LAST_SHARE = 0.02
"""Of the whole: what is left is no longer parted once it is as little as this."""


@dataclass
class _Part:
    allowed: float = 0.0
    spent: float = 0.0


class Allowances:
    """US dollars left of each budget, by role, and who is allowed how much of them."""

    def __init__(self, left: Mapping[str, float]) -> None:
        self._left = dict(left)
        self._whole = dict(left)
        self._parts: dict[str, dict[int, _Part]] = {role: {} for role in left}

    def allow(self, worker: int, spent: Mapping[str, float], workers: int) -> dict[str, float]:
        """What a worker may have spent in all by now; more than before where it has used half of what it was given.

        `spent`: what it says it has. Half of what is left is parted among all at a time, so that a worker that is lost
        with its part takes little away.
        """
        allowed: dict[str, float] = {}
        for role, parts in self._parts.items():
            part = parts.setdefault(worker, _Part())
            part.spent = max(part.spent, spent.get(role, 0.0))
            left = self._left[role]
            share = left / (2 * workers) if left > _LAST_SHARE * self._whole[role] else left
            if part.allowed - part.spent < share:
                part.allowed += share
                self._left[role] -= share
            allowed[role] = part.allowed
        return allowed

    def last(self) -> list[str]:
        """Roles of which nothing is left to be allowed."""
        return [role for role, left in self._left.items() if left <= 0]

    def left(self, worker: int, spent: Mapping[str, float]) -> None:
        """A worker has gone, with nothing in flight: what it was allowed beyond what it spent is there again."""
        for role, parts in self._parts.items():
            part = parts.pop(worker, _Part())
            self._left[role] += part.allowed - max(part.spent, spent.get(role, 0.0))

    def lost(self, worker: int) -> None:
        """A worker is lost, and nobody knows what its calls in flight have cost: its part counts as spent."""
        for parts in self._parts.values():
            parts.pop(worker, None)
