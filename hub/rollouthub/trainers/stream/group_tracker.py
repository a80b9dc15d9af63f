"""Tracks a supply's units from their first sample to the consumer, and judges, drops or hands out each."""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import count

import anyio

from rollouthub.errors import StoreError, SupplyError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.trainers.stream.acceptance import Acceptance, Sifted
from rollouthub.trainers.stream.curriculum import Curriculum
from rollouthub.trainers.stream.failing_tasks import FailingTasks
from rollouthub.trainers.stream.group_filters import GroupFilter
from rollouthub.trainers.stream.ledger import Fate, LedgerEntry, PassRate
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.rollout_group import RolloutGroup
from rollouthub.trainers.stream.staleness_bound import StalenessBound
from rollouthub.trainers.stream.stream_rules import Bounds, SupplyRules
from rollouthub.trainers.stream.stream_stats import SupplyStats

MOST_PASSES = 3
"""How often a task is played in one epoch, at most, because its rollouts become stale; a task that needs more is too
slow for the bound.
"""


class GroupTracker:
    """The units of a supply, from the first sample in flight to the consumer."""

    def __init__(
        self,
        rules: SupplyRules,
        bounds: Bounds,
        policy: PolicyVersions,
        note: Callable[[LedgerEntry], None],
        filters: Sequence[GroupFilter] = (),
    ) -> None:
        """`note` stores how each unit ended; `filters` decide which units are worth handing out."""
        self.rules, self.bounds, self.policy = rules, bounds, policy
        self.room = StalenessBound(bounds.batch, rules.max_staleness, bounds.outstanding)
        self.stats = SupplyStats(policy_version=policy.version)
        self.again: deque[TaskPass] = deque()
        """Passes to be played again, before any new pass."""
        self.curriculum = Curriculum(rules.band, rules.band_rest)
        self.note_rate: Callable[[PassRate], None] = lambda seen: None
        """Stores a task's pass rate, for the curriculum of a resumed run."""
        self.is_over = False
        """Whether no further unit will be begun."""
        self.failure: Exception | None = None
        """The error that stopped the supply."""
        self.is_held = False
        """Whether generation is paused; then there is nothing to wait for."""
        self.break_off: Callable[[str], bool] = lambda rollout_id: True
        """Cancels a sample by its rollout id; returns True if no attempt at the sample had been started."""
        self.acceptance = Acceptance(rules, bounds, policy, filters)
        self._note = note
        self._failing_tasks = FailingTasks()
        self._begun: Counter[int] = Counter()
        """How many units are in flight, by the policy version at their start."""
        self._units: dict[str, PendingGroup] = {}
        self._unwanted: set[str] = set()
        self._open: Counter[int] = Counter()
        """How many units of first passes are not yet concluded, by epoch."""
        self._ready: list[tuple[int, int, PendingGroup]] = []
        self._given: list[LedgerEntry] = []
        """Units handed out since the consumer last came back."""
        self._numbers = count()
        self._is_abandoned = False
        self._changed = anyio.Event()

    # --- from the players ---------------------------------------------------------------------------------------------

    def begin(self, unit: PendingGroup) -> None:
        """Register a unit whose samples are about to be played."""
        for rollout_id in unit.rollout_ids:
            self._units[rollout_id] = unit
        unit.began = self.policy.version
        self._begun[unit.began] += 1
        self.room.outstanding += 1
        if not unit.ticket.pass_number:
            self._open[unit.ticket.epoch] += 1
        self.stats.begun += 1
        self.stats.in_flight += 1

    def added(self, rollout: Rollout) -> None:
        """Register a record that was queued for the store."""
        if (unit := self._units.get(rollout.rollout_id)) is not None:
            unit.added(rollout)

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample were queued for the store since its unit was begun."""
        unit = self._units.get(rollout_id)
        return 0 if unit is None else unit.attempts(rollout_id)

    def is_wanted_again(self, rollout_id: str) -> bool:
        """Whether a cancelled sample is to be played again: its unit is in flight, and the sample has no result yet."""
        unit = self._units.get(rollout_id)
        is_wanted = unit is not None and not unit.is_decided(rollout_id)
        self.stats.discarded += is_wanted
        return is_wanted

    def is_unwanted(self, rollout_id: str) -> bool:
        """Whether a starting attempt is to be cancelled, because its group is complete without it."""
        return rollout_id in self._unwanted

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count rollouts whose records are now durable, and update their groups."""
        self.stats.rollouts += len(rollouts)
        for rollout in rollouts:
            if (unit := self._units.get(rollout.rollout_id)) is not None:
                unit.committed(rollout)
                self.look_at(unit)

    def settled(self, rollout_id: str) -> None:
        """Register that no further attempt at a sample follows."""
        self._unwanted.discard(rollout_id)
        if (unit := self._units.get(rollout_id)) is not None:
            unit.settled(rollout_id)
            self.look_at(unit)

    def lowest_open(self, epoch: int) -> int:
        """The lowest epoch with an unconcluded unit; `epoch` if there is none."""
        self._open += Counter()  # drops zeros
        return min(self._open, default=epoch)

    def look_at(self, unit: PendingGroup) -> None:
        """Judge a unit if it is finished."""
        if not unit.is_finished or unit.rollout_ids[0] not in self._units:
            return
        for rollout_id in unit.rollout_ids:
            del self._units[rollout_id]
        self._begun[unit.began] -= 1
        for rollout_id in unit.unsettled:
            self.stats.redundant += 1
            self._unwanted.add(rollout_id)
            if self.break_off(rollout_id):
                self._unwanted.discard(rollout_id)
        self.stats.in_flight -= 1
        self._judge(unit)
        self.change()

    # --- to the consumer ----------------------------------------------------------------------------------------------

    async def take(self) -> RolloutGroup | None:
        """Wait for the next unit; None if there will be no more.

        Raises:
            SupplyError: the supply cannot go on.
            StoreError: how units ended can no longer be stored.
        """
        while True:
            if (group := self.take_at_once()) is not None:
                return group
            if self.failure is not None:
                raise self.failure
            if self.is_over and not self.room.outstanding:
                return None
            if not self.is_over and self.room.lend():
                self.change()
            await self.wait()

    def take_at_once(self) -> RolloutGroup | None:
        """The next unit if one is ready; otherwise None."""
        self.sweep()
        return self._hand_out() if self._ready and not self._must_wait else None

    @property
    def _must_wait(self) -> bool:
        """Whether the next handed-out unit must be one still in flight, because the next version may make it stale
        (`stale = "wait"`).
        """
        if self.rules.stale == "drop" or self.rules.max_staleness is None or self.is_held or self.failure is not None:
            return False
        self._begun += Counter()  # drops zeros
        return min(self._begun, default=self.policy.version + 1) <= self.policy.version - self.rules.max_staleness

    def sweep(self) -> None:
        """Judge the waiting units again, and drop those that have become stale."""
        if self.rules.max_staleness is None or not self._ready:
            return
        oldest = self.policy.version - self.rules.max_staleness
        if self._ready[0][0] >= oldest:
            return
        waiting, self._ready = self._ready, []
        for _, _, unit in sorted(waiting, key=lambda each: each[:2]):
            self._judge(unit)
        self.change()

    @property
    def is_finished(self) -> bool:
        """Whether all units were played, and handed out or dropped."""
        return self.is_over and self.failure is None and not self._is_abandoned and not self.room.outstanding

    def fail(self, error: Exception) -> None:
        """Stop playing because of an error; only the first error is kept."""
        self.failure = self.failure or error
        self.end()

    def end(self) -> None:
        """Begin no further unit."""
        self.is_over = True
        self.change()

    def abandon(self) -> None:
        """Give up all units in flight; those that are ready can still be handed out."""
        self._is_abandoned = bool(self._units)
        self._units.clear()
        self._begun.clear()
        self.stats.in_flight = 0
        self.room.outstanding = len(self._ready)
        self.end()

    def change(self) -> None:
        """Wake all tasks that wait for a change."""
        self.stats.ready = len(self._ready)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait(self) -> None:
        """Wait until something changes."""
        await self._changed.wait()

    # --- judging ------------------------------------------------------------------------------------------------------

    def is_set_aside(self, ticket: TaskPass) -> bool:
        """Whether a task is not to be played any more."""
        return self._failing_tasks.are_out(ticket)

    def _judge(self, unit: PendingGroup) -> None:
        """Judge a finished unit, and queue it for the consumer or drop it."""
        sifted = self.acceptance.sift(unit)
        if (seen := self.curriculum.look_at(unit.ticket, sifted.fresh, self.policy.version)) is not None:
            self.note_rate(seen)
        if sifted.failure is not None:
            self.fail(sifted.failure)
        if sifted.fate is None:
            heapq.heappush(self._ready, (self.acceptance.oldest(sifted.fresh), next(self._numbers), unit))
            return
        self._count(unit, sifted)
        self._conclude(unit, sifted.fate, sifted.scored)
        self.acceptance.dropped += 1
        if self.acceptance.is_clogged_by(sifted.fate) and self.failure is None:
            self.fail(SupplyError(self._explained()))
        if sifted.fate == "stale":
            self._play_again(unit)

    def _count(self, unit: PendingGroup, sifted: Sifted) -> None:
        """Count the reason why a unit is dropped."""
        stats = self.stats
        if sifted.against is not None:
            stats.filtered = {**stats.filtered, sifted.against: stats.filtered.get(sifted.against, 0) + 1}
        elif sifted.fate == "constant":
            stats.constant += 1
        elif sifted.fate == "stale":
            stats.stale += 1
            stats.stale_rollouts += len(sifted.scored) - len(sifted.fresh)
        else:
            stats.short += 1
            stats.set_aside += self._failing_tasks.count(unit)

    def _play_again(self, unit: PendingGroup) -> None:
        if unit.ticket.pass_number + 1 < MOST_PASSES:
            self.again.append(unit.ticket.again(unit.sample))
            self.stats.requeued += 1

    def _explained(self) -> str:
        return (
            f"{self.acceptance.dropped} groups were dropped while one batch of {self.bounds.batch} was to be filled: "
            f"{self.stats.explained()}. "
            "Give other tasks or a higher max_dropped (when_dropped='yield' lets constant groups through); "
            "`hub report` on the run's directory says what broke"
        )

    def _hand_out(self) -> RolloutGroup:
        unit = heapq.heappop(self._ready)[2]
        scored = [record for record in unit.records if record.outcome is Outcome.SCORED]
        fresh = [record for record in scored if self.acceptance.is_fresh(record)]
        self.stats.stale_rollouts += len(scored) - len(fresh)
        self.stats.partial += len(fresh) < unit.size
        self.room.handed_out += 1
        self.stats.handed_out += 1
        if self.stats.handed_out % self.bounds.batch == 0:
            self.acceptance.dropped = 0
        self._conclude(unit, "handed", fresh)
        self.change()
        return self.acceptance.group(unit, fresh)

    def _conclude(self, unit: PendingGroup, fate: Fate, scored: list[Rollout]) -> None:
        """Remove a unit from the units in flight, and record how it ended."""
        self.room.outstanding -= 1
        entry = unit.entry(fate, self.policy.version, scored)
        if fate == "handed":
            self._given.append(entry)
        else:
            self._keep(entry)

    def acknowledge(self) -> None:
        """Record all units given to the consumer as handed out: the consumer is back, so it has finished with them."""
        given, self._given = self._given, []
        for entry in given:
            self._keep(entry)

    def _keep(self, entry: LedgerEntry) -> None:
        if not entry.visit:
            self._open[entry.epoch] -= 1
        try:
            self._note(entry)
        except StoreError as error:
            self.fail(error)
