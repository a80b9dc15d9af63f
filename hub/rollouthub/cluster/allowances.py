"""Divides one budget among many workers: each may spend a part at a time, so that together they never overspend."""

from collections.abc import Mapping
from dataclasses import dataclass

_LAST_SHARE = 0.02
"""Share of the whole budget; once the rest is no larger, it is given out undivided."""


@dataclass
class _Part:
    allowed: float = 0.0
    spent: float = 0.0


class Allowances:
    """The US dollars left of each role's budget, and how much each worker is allowed."""

    def __init__(self, left: Mapping[str, float]) -> None:
        self._left = dict(left)
        self._whole = dict(left)
        self._parts: dict[str, dict[int, _Part]] = {role: {} for role in left}

    def allow(self, worker: int, spent: Mapping[str, float], workers: int) -> dict[str, float]:
        """The US dollars by role that a worker may have spent in total; raised when its unspent part runs low.

        `spent`: US dollars by role that the worker reports so far. Only half of the rest is divided among all workers
        at a time, so that losing a worker together with its part takes little of the budget away.
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
        """Roles whose budget is fully given out."""
        return [role for role, left in self._left.items() if left <= 0]

    def left(self, worker: int, spent: Mapping[str, float]) -> None:
        """Return a worker's unspent allowance to the budget, after it left with nothing in flight."""
        for role, parts in self._parts.items():
            part = parts.pop(worker, _Part())
            self._left[role] += part.allowed - max(part.spent, spent.get(role, 0.0))

    def lost(self, worker: int) -> None:
        """Count a lost worker's whole allowance as spent, since the cost of its calls in flight is unknown."""
        for parts in self._parts.values():
            parts.pop(worker, None)
