"""A budget: what a call may cost is set aside before it, and what it did cost is counted after it."""

import math

from rollouthub.errors import BudgetError
from rollouthub.models.router.quota_watch import QuotaWatch
from rollouthub.models.router.waiting_line import WaitingLine


class Budget:
    """US dollars for one model, and for those that stand in for it, whose budgets name this one as their `parent`."""

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
        """Whether there is anything to hold calls to."""
        return self._limit is not None or (self._parent is not None and self._parent.is_limited)

    def try_reserve(self, dollars: float) -> bool:
        """Set aside what a call may cost; false where it has to wait for that.

        Raises:
            BudgetError: so much is no longer left, whatever the calls in flight turn out to cost.
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
        """Set aside what a call may cost, in line behind others that wait for calls in flight to end.

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
        """Give back what was set aside, and count what the call cost."""
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
        """Hold calls to so much from now on; unless it is the last word, what does not fit waits for more."""
        self._limit, self._may_grow = dollars, not is_last
        self._line.changed()

    def count(self, cost: float) -> None:
        """Count the cost of a call for which nothing was set aside."""
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
        """0 where so much is free, infinite where it may become free.

        Raises:
            BudgetError: it will not.
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
