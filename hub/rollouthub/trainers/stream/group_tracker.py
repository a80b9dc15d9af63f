"""Where a supply's units are followed from their first sample to the consumer: judged, dropped or handed out."""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import count

import anyio

from rollouthub.errors import StoreError, SupplyError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.trainers.stream.acceptance import Acceptance, Sifted
from rollouthub.trainers.stream.failing_tasks import FailingTasks
from rollouthub.trainers.stream.group_filters import GroupFilter
from rollouthub.trainers.stream.ledger import Fate, LedgerEntry
from rollouthub.trainers.stream.pending_group import PendingGroup, TaskPass
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.rollout_group import RolloutGroup
from rollouthub.trainers.stream.staleness_bound import StalenessBound
from rollouthub.trainers.stream.stream_rules import Bounds, SupplyRules
from rollouthub.trainers.stream.stream_stats import SupplyStats

MOST_VISITS = 3
"""Times a task whose rollouts become stale is played in one epoch; it is too slow for the bound then."""


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
        """`note` keeps what becomes of a unit; `filters` say which are worth handing out."""
        self.rules, self.bounds, self.policy = rules, bounds, policy
        self.room = StalenessBound(bounds.batch, rules.max_staleness, bounds.outstanding)
        self.stats = SupplyStats(policy_version=policy.version)
        self.again: deque[TaskPass] = deque()
        """To be played once more, before any other."""
        self.is_over = False
        """Whether nothing more will be begun."""
        self.failure: Exception | None = None
        """Why nothing more is played."""
        self.is_held = False
        """Whether generation is, so that there is nothing to wait for."""
        self.break_off: Callable[[str], bool] = lambda rollout_id: True
        """Ends what is under way of a sample; whether nobody had begun with it."""
        self.sieve = Acceptance(rules, bounds, policy, filters)
        self._note = note
        self._strikes = FailingTasks()
        self._begun: Counter[int] = Counter()
        """Units under way, by the policy's version when they were begun."""
        self._units: dict[str, PendingGroup] = {}
        self._unwanted: set[str] = set()
        self._open: Counter[int] = Counter()
        """First visits that are not done with, by epoch."""
        self._ready: list[tuple[int, int, PendingGroup]] = []
        self._given: list[LedgerEntry] = []
        """Handed out, and the consumer has not come back since."""
        self._numbers = count()
        self._is_abandoned = False
        self._changed = anyio.Event()

    # --- from the players ---------------------------------------------------------------------------------------------

    def begin(self, unit: PendingGroup) -> None:
        """A unit is about to be played."""
        for rollout_id in unit.rollout_ids:
            self._units[rollout_id] = unit
        unit.began = self.policy.version
        self._begun[unit.began] += 1
        self.room.outstanding += 1
        if not unit.ticket.visit:
            self._open[unit.ticket.epoch] += 1
        self.stats.begun += 1
        self.stats.in_flight += 1

    def added(self, rollout: Rollout) -> None:
        """A record was handed to the store."""
        if (unit := self._units.get(rollout.rollout_id)) is not None:
            unit.added(rollout)

    def attempts(self, rollout_id: str) -> int:
        """How many attempts at a sample were handed to the store since its unit was begun."""
        unit = self._units.get(rollout_id)
        return 0 if unit is None else unit.attempts(rollout_id)

    def is_wanted_again(self, rollout_id: str) -> bool:
        """Whether a sample that was broken off is to be played anew: its unit is under way, and it was in time."""
        unit = self._units.get(rollout_id)
        is_wanted = unit is not None and not unit.is_decided(rollout_id)
        self.stats.discarded += is_wanted
        return is_wanted

    def is_unwanted(self, rollout_id: str) -> bool:
        """Whether an attempt that begins is to be broken off: its group is whole without it."""
        return rollout_id in self._unwanted

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """Count rollouts whose records are now durable, and update their groups."""
        self.stats.rollouts += len(rollouts)
        for rollout in rollouts:
            if (unit := self._units.get(rollout.rollout_id)) is not None:
                unit.committed(rollout)
                self.look_at(unit)

    def settled(self, rollout_id: str) -> None:
        """No further attempt at a sample follows."""
        self._unwanted.discard(rollout_id)
        if (unit := self._units.get(rollout_id)) is not None:
            unit.settled(rollout_id)
            self.look_at(unit)

    def lowest_open(self, epoch: int) -> int:
        """The first epoch of which something is under way, or the one given."""
        self._open += Counter()  # drops zeros
        return min(self._open, default=epoch)

    def look_at(self, unit: PendingGroup) -> None:
        """Judge a unit, where it is finished."""
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
        """The next unit, waited for; None where there will be none.

        Raises:
            SupplyError: it cannot go on.
            StoreError: what becomes of units cannot be kept.
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
        """The next unit, where one is ready."""
        self.sweep()
        return self._hand_out() if self._ready and not self._must_wait else None

    @property
    def _must_wait(self) -> bool:
        """Whether something is under way that the next version may make stale, and that comes before what is ready."""
        if self.rules.stale == "drop" or self.rules.max_staleness is None or self.is_held or self.failure is not None:
            return False
        self._begun += Counter()  # drops zeros
        return min(self._begun, default=self.policy.version + 1) <= self.policy.version - self.rules.max_staleness

    def sweep(self) -> None:
        """Let go of what has become stale while it waited."""
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
        """Whether all there was to play was played and handed out."""
        return self.is_over and self.failure is None and not self._is_abandoned and not self.room.outstanding

    def fail(self, error: Exception) -> None:
        """Nothing more is played; the first reason stands."""
        self.failure = self.failure or error
        self.end()

    def end(self) -> None:
        """Nothing more is begun."""
        self.is_over = True
        self.change()

    def abandon(self) -> None:
        """Nothing in flight comes to an end any more."""
        self._is_abandoned = bool(self._units)
        self._units.clear()
        self._begun.clear()
        self.stats.in_flight = 0
        self.room.outstanding = len(self._ready)
        self.end()

    def change(self) -> None:
        """Let those who wait look again."""
        self.stats.ready = len(self._ready)
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait(self) -> None:
        """Until something changes."""
        await self._changed.wait()

    # --- judging ------------------------------------------------------------------------------------------------------

    def is_set_aside(self, ticket: TaskPass) -> bool:
        """Whether a task is not to be played any more."""
        return self._strikes.are_out(ticket)

    def _judge(self, unit: PendingGroup) -> None:
        """Put a finished unit where it belongs: ready, or dropped."""
        sifted = self.sieve.sift(unit)
        if sifted.failure is not None:
            self.fail(sifted.failure)
        if sifted.fate is None:
            heapq.heappush(self._ready, (self.sieve.oldest(sifted.fresh), next(self._numbers), unit))
            return
        self._count(unit, sifted)
        self._conclude(unit, sifted.fate, sifted.scored)
        self.sieve.dropped += 1
        if self.sieve.is_clogged_by(sifted.fate) and self.failure is None:
            self.fail(SupplyError(self._explained()))
        if sifted.fate == "stale":
            self._play_again(unit)

    def _count(self, unit: PendingGroup, sifted: Sifted) -> None:
        """Count why a unit is dropped."""
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
            stats.set_aside += self._strikes.strike(unit)

    def _play_again(self, unit: PendingGroup) -> None:
        if unit.ticket.visit + 1 < MOST_VISITS:
            self.again.append(unit.ticket.again(unit.sample))
            self.stats.requeued += 1

    def _explained(self) -> str:
        return (
            f"{self.sieve.dropped} groups were dropped while one batch of {self.bounds.batch} was to be filled: "
            f"{self.stats.explained()}. "
            "Give other tasks or a higher max_dropped (when_dropped='yield' lets constant groups through); "
            "`hub report` on the run's directory says what broke"
        )

    def _hand_out(self) -> RolloutGroup:
        unit = heapq.heappop(self._ready)[2]
        scored = [record for record in unit.records if record.outcome is Outcome.SCORED]
        fresh = [record for record in scored if self.sieve.is_fresh(record)]
        self.stats.stale_rollouts += len(scored) - len(fresh)
        self.stats.partial += len(fresh) < unit.size
        self.room.handed_out += 1
        self.stats.handed_out += 1
        if self.stats.handed_out % self.bounds.batch == 0:
            self.sieve.dropped = 0
        self._conclude(unit, "handed", fresh)
        self.change()
        return self.sieve.group(unit, fresh)

    def _conclude(self, unit: PendingGroup, fate: Fate, scored: list[Rollout]) -> None:
        """It is out of the way."""
        self.room.outstanding -= 1
        entry = unit.entry(fate, self.policy.version, scored)
        if fate == "handed":
            self._given.append(entry)
        else:
            self._keep(entry)

    def acknowledge(self) -> None:
        """The consumer is back, and has done with all it was given: none of that is to be handed out again."""
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
