"""Samples that callers request one by one: each is played on request, and returned when its record is durable."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import anyio

from rollouthub.engine.sample import Sample
from rollouthub.errors import SupplyError
from rollouthub.rollout import Rollout
from rollouthub.trainers.stream.pending_group import DECIDED, PendingGroup
from rollouthub.trainers.stream.policy_version import PolicyVersions


class Stamping(Protocol):
    """The part of a supply or worker that `StampingSink` uses: the policy's version, queued records, and which
    attempts to cancel.
    """

    policy: PolicyVersions

    def added(self, rollout: Rollout) -> None: ...
    def attempts(self, rollout_id: str) -> int: ...
    def is_unwanted(self, rollout_id: str) -> bool: ...


class PendingSample:
    """One sample, and how many callers wait for it."""

    def __init__(self, unit: PendingGroup) -> None:
        self.unit = unit
        self.waiting = 0
        """How many callers wait for the sample."""
        self.is_over = anyio.Event()
        self.on_waiting: list[Callable[[], None]] = []
        """Called when the sample is over and waits for the verdict on its group."""
        self.awaits_group = False
        """Whether its latest record waits for that verdict."""
        self.failure: Exception | None = None
        """The error that keeps the sample from being finished."""

    async def wait(self) -> Rollout:
        """Wait for the sample's record, which is durable then.

        Raises:
            SupplyError: the sample's worker process was lost, and the sample has no record.
            Exception: any other error that ended the run.
        """
        await self.is_over.wait()
        if self.failure is not None:
            raise self.failure
        if not self.unit.records:
            raise SupplyError(f"sample {self.unit.unit_id} was lost with its player, and left no record; ask again")
        return self.unit.records[0]


class SampleRequests:
    """The samples that were requested and not returned yet; a pool reads them as an iterator on demand."""

    def __init__(self, policy: PolicyVersions, cancel: Callable[[str], None]) -> None:
        """`cancel` cancels the attempt in flight at a sample, if there is one, by its rollout id."""
        self.policy = policy
        self._cancel = cancel
        self._orders: dict[str, PendingSample] = {}
        self._items: deque[Sample] = deque()
        self._unwanted: set[str] = set()
        """Samples that the pool has read and no caller waits for any more; their attempts are cancelled."""
        self._attempts: dict[str, int] = {}
        """How many attempts at a sample have been made since the run was opened, by rollout id."""
        self._coming: set[str] = set()
        """Samples whose final result is queued for the store."""
        self._decided: set[str] = set()
        self._failure: Exception | None = None
        self.withdrawn: Callable[[Sample], None] = lambda sample: None
        """Called with a sample that no caller waits for any more, before any player has read it."""
        self._on_change: Callable[[], None] = lambda: None

    # --- from who asks ------------------------------------------------------------------------------------------------

    async def ask(
        self, unit: PendingGroup, waiting: Rollout | None = None, on_waiting: Callable[[], None] | None = None
    ) -> Rollout:
        """Have a sample played, and wait for its record; several callers may wait for the same sample.

        `waiting` is the record of a sample that was played before and waits for its group's verdict: it is not played
        again. `on_waiting` is called when the sample is over and waits for that verdict. If the last waiting caller is
        cancelled, the episode is cancelled too.
        """
        order = self._put(unit, waiting)
        order.waiting += 1
        if on_waiting is not None:
            order.on_waiting.append(on_waiting)
        try:
            return await order.wait()
        finally:
            order.waiting -= 1
            if not order.waiting and not order.is_over.is_set():
                self._give_up(order)

    def _put(self, unit: PendingGroup, waiting: Rollout | None) -> PendingSample:
        rollout_id = unit.rollout_ids[0]
        order = self._orders.get(rollout_id)
        if order is None:
            order = self._orders[rollout_id] = PendingSample(unit)
            if self._failure is not None:
                self._end(order, self._failure)
            elif waiting is not None:
                unit.added(waiting)
                unit.settled(rollout_id)
            elif rollout_id not in self._unwanted:  # else it is played once what is broken off is on record
                self._play(unit)
        return order

    def _play(self, unit: PendingGroup) -> None:
        self._items.extend(unit.items)
        self._on_change()

    def _give_up(self, order: PendingSample) -> None:
        if order.unit.is_settled:
            return  # its record is on its way into the store
        (sample,) = order.unit.items
        del self._orders[sample.rollout_id]
        unread = [each for each in self._items if each is not sample]
        if len(unread) < len(self._items):
            self._items = deque(unread)
            self.withdrawn(sample)
        elif sample.rollout_id not in self._unwanted:
            self._unwanted.add(sample.rollout_id)
            self._cancel(sample.rollout_id)

    def fail(self, error: Exception) -> None:
        """Play nothing more; every waiting caller gets the error. Only the first error is kept."""
        self._failure = self._failure or error
        for order in tuple(self._orders.values()):
            self._end(order, self._failure)

    @property
    def is_idle(self) -> bool:
        """Whether no caller waits for a sample."""
        return not self._orders

    def is_pending(self, rollout_id: str) -> bool:
        """Whether a caller waits for a sample."""
        return rollout_id in self._orders

    def is_decided(self, rollout_id: str) -> bool:
        """Whether a sample got its final result since the run was opened, so that it is in the store."""
        return rollout_id in self._decided

    # --- from the pool, the sink and the store ------------------------------------------------------------------------

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample were made since the run was opened, over all requests for it; 0 if none."""
        return self._attempts.get(rollout_id, 0)

    def is_unwanted(self, rollout_id: str) -> bool:
        """Whether a starting attempt at the sample is to be cancelled."""
        return rollout_id in self._unwanted

    @property
    def has_next(self) -> bool:
        """Whether a sample is ready to be read."""
        return bool(self._items)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Set the function to call when a sample becomes ready."""
        self._on_change = callback

    def __aiter__(self) -> "SampleRequests":
        return self

    async def __anext__(self) -> Sample:
        assert self._items, "read while it has no next"
        return self._items.popleft()

    def added(self, rollout: Rollout) -> None:
        """Register a record that was queued for the store."""
        self._attempts[rollout.rollout_id] = rollout.attempt + 1
        if rollout.outcome in DECIDED:
            self._coming.add(rollout.rollout_id)
        if (order := self._orders.get(rollout.rollout_id)) is not None:
            order.unit.added(rollout)
            order.awaits_group = rollout.awaits_group

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Register that records are durable."""
        for rollout in rollouts:
            if rollout.outcome in DECIDED:
                self._decided.add(rollout.rollout_id)
                self._coming.discard(rollout.rollout_id)
            if (order := self._orders.get(rollout.rollout_id)) is not None:
                order.unit.committed(rollout)
                self._look_at(order)

    def settled(self, sample: Sample) -> None:
        """Register that no further attempt at a sample follows."""
        rollout_id = sample.rollout_id
        order = self._orders.get(rollout_id)
        if rollout_id in self._unwanted:
            self._unwanted.discard(rollout_id)
            if order is not None and rollout_id not in self._coming:
                self._play(order.unit)
                return
        if order is not None:
            order.unit.settled(rollout_id)
            for callback in order.on_waiting if order.awaits_group else ():
                callback()
            self._look_at(order)

    def _look_at(self, order: PendingSample) -> None:
        if order.unit.is_finished:
            self._end(order, None)

    def _end(self, order: PendingSample, failure: Exception | None) -> None:
        order.failure = failure
        order.is_over.set()
        self._orders.pop(order.unit.rollout_ids[0], None)
