"""Groups whose members callers request one by one or all at once, of environments that score groups."""

from collections.abc import Callable
from pathlib import Path

import anyio.to_thread

from rollouthub.engine.group_scoring import GroupScoring
from rollouthub.errors import SupplyError, UnknownNameError
from rollouthub.rollout import Rollout
from rollouthub.store import RunWriter, open_run
from rollouthub.trainers.stream.pending_group import PendingGroup
from rollouthub.trainers.stream.sample_requests import SampleRequests


class RequestedGroups:
    """Has the requested members played and judged; those that the run's directory has are not played again."""

    def __init__(self, scoring: GroupScoring, writer: RunWriter, orders: SampleRequests, directory: Path) -> None:
        self._scoring, self._writer, self._orders, self._directory = scoring, writer, orders, directory

    async def play(self, unit: PendingGroup, on_waiting: Callable[[], None] | None = None) -> Rollout:
        """Play one member, and wait until its group has its verdict; `on_waiting` is called when it is over.

        Raises:
            SupplyError, StoreError: as `RolloutWorker.play`.
        """
        (sample,) = unit.items
        rollout_id, writer = sample.rollout_id, self._writer
        if self._orders.is_pending(rollout_id):
            return await self._orders.ask(unit, on_waiting=on_waiting)
        if self._orders.is_decided(rollout_id):
            return await self._stored(rollout_id)
        if writer.is_judged(sample.group_id):  # what broke of it is not played again
            try:
                return await self._stored(rollout_id)
            except UnknownNameError:
                raise SupplyError(f"sample {rollout_id} was not played before its group got its verdict") from None
        if not writer.is_done(rollout_id):
            return await self._orders.ask(unit, on_waiting=on_waiting)
        waiting = writer.waiting_members.get(rollout_id)
        if waiting is None:  # its agent failed, which no verdict changes
            lost = await self._stored(rollout_id)
            self._scoring.done_before(sample, lost)
            return lost
        self._scoring.done_before(sample, waiting)
        if on_waiting is not None:
            on_waiting()
        return await self._orders.ask(unit, waiting)

    async def _stored(self, rollout_id: str) -> Rollout:
        return await anyio.to_thread.run_sync(read_stored, self._directory, rollout_id)


def read_stored(directory: Path, rollout_id: str) -> Rollout:
    """The record of a sample in a run's directory.

    Raises:
        StoreError, UnknownNameError: it cannot be read, or is not there.
    """
    with open_run(directory) as reader:
        return reader.rollout(rollout_id)
