"""A budget: reserves what a call may cost before it begins, and counts its actual cost afterwards."""

import math

from rollouthub.errors import BudgetError
from rollouthub.models.router.quota_watch import QuotaWatch
from rollouthub.models.router.waiting_line import WaitingLine


class Budget:
    """A budget in US dollars for one model; its fallbacks' budgets have it as their `parent`, so that their costs
    count here too.
    """

    def __init__(self, owner: str, limit: float | None, parent: "Budget | None" = None) -> None:
        self.spent = 0.0
        self._owner, self._limit, self._parent = owner, limit, parent
        self._reserved = 0.0
        self._may_grow = False
        self._holders = 0
        self._line = WaitingLine()
        self._watch = QuotaWatch(f"the budget of {owner} (${limit:.6g})") if limit else None

    @property
    def is_limited(self) -> bool:
        """Whether this budget or a parent has a limit."""
        return self._limit is not None or (self._parent is not None and self._parent.is_limited)

    def try_reserve(self, dollars: float) -> bool:
        """Reserve what a call may cost; False if the call has to wait for calls in flight.

        Raises:
            BudgetError: the amount is not available, whatever the calls in flight turn out to cost.
        """
        parent = self._parent
        if parent is not None and not parent.try_reserve(dollars):
            return False
        fits = False
        try:
            fits = self._limit is None or (not len(self._line) and self._seconds_left(dollars) <= 0)
        finally:
            if not fits and parent is not None:
                parent.release(dollars, 0.0)
        if fits:
            self._take(dollars)
        return fits

    async def reserve(self, dollars: float) -> None:
        """Reserve what a call may cost, waiting in line for calls in flight to end.

        Raises:
            BudgetError: as `try_reserve`.
        """
        parent = self._parent
        if parent is not None:
            await parent.reserve(dollars)
        if self._limit is not None:
            try:
                await self._line.wait(lambda: self._seconds_left(dollars))
            except BaseException:
                if parent is not None:
                    parent.release(dollars, 0.0)
                raise
        self._take(dollars)

    def release(self, reserved: float, cost: float) -> None:
        """Return a reserved amount, and count the call's actual cost."""
        if self._parent is not None:
            self._parent.release(reserved, cost)
        self.spent += cost
        if self._limit is None:
            return
        self._look()
        self._holders -= 1
        # Sums of floats drift; nobody holding anything is a chance to start afresh.
        self._reserved = self._reserved - reserved if self._holders else 0.0
        self._line.changed()

    def lease(self, dollars: float, *, is_last: bool) -> None:
        """Set the limit to `dollars`; unless `is_last`, calls that do not fit wait for a higher lease instead of
        failing.
        """
        self._limit, self._may_grow = dollars, not is_last
        self._line.changed()

    def count(self, cost: float) -> None:
        """Count the cost of a call without a reservation."""
        self.spent += cost
        self._look()
        if self._parent is not None:
            self._parent.count(cost)

    def _look(self) -> None:
        if self._watch is not None and self._limit:
            self._watch.used(self.spent / self._limit)

    def _take(self, dollars: float) -> None:
        if self._limit is not None:
            self._reserved += dollars
            self._holders += 1

    def _seconds_left(self, dollars: float) -> float:
        """0 if the amount is free, infinity if it may become free.

        Raises:
            BudgetError: the amount will not become free.
        """
        assert self._limit is not None
        if self.spent + self._reserved + dollars <= self._limit:
            return 0.0
        if self._may_grow or (self.spent + dollars <= self._limit and self._holders):
            return math.inf
        raise BudgetError(
            f"the budget of {self._owner} is used up: ${self.spent:.6g} of ${self._limit:.6g} are spent, and this call "
            f"may cost ${dollars:.3g}; raise the budget, or set max_tokens lower"
        )
