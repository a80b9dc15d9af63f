"""Where units are judged and handed out: whole or dropped, fresh or stale, constant or worth learning from."""

import heapq
from collections import Counter, deque
from collections.abc import Callable, Sequence
from itertools import count

import anyio

from envhub.errors import StoreError, SupplyError
from envhub.rewards import is_constant
from envhub.rollout import Outcome, Rollout
from envhub.supply.filters import GroupFilter, first_against
from envhub.supply.group import RolloutGroup
from envhub.supply.ledger import Entry, Fate
from envhub.supply.policy import Policy
from envhub.supply.room import Room
from envhub.supply.rules import Bounds, SupplyRules
from envhub.supply.stats import SupplyStats
from envhub.supply.unit import Ticket, Unit

MOST_VISITS = 3
"""Times a task whose rollouts become stale is played in one epoch; it is too slow for the bound then."""
MOST_STRIKES = 2
"""Visits in which every sample broke, before a task is set aside."""
_BROKEN = ("infrastructure_fault", "verifier_fault")


class Desk:
    """The units of a supply, from the first sample in flight to the consumer."""

    def __init__(
        self,
        rules: SupplyRules,
        bounds: Bounds,
        policy: Policy,
        note: Callable[[Entry], None],
        filters: Sequence[GroupFilter] = (),
    ) -> None:
        """`note` keeps what becomes of a unit; `filters` say which are worth handing out."""
        self.rules, self.bounds, self.policy = rules, bounds, policy
        self.room = Room(bounds.batch, rules.max_staleness, bounds.outstanding)
        self.stats = SupplyStats(policy_version=policy.version)
        self.again: deque[Ticket] = deque()
        """To be played once more, before any other."""
        self.is_over = False
        """Whether nothing more will be begun."""
        self.failure: Exception | None = None
        """Why nothing more is played."""
        self.strikes: Counter[tuple[str, str, str]] = Counter()
        self.is_held = False
        """Whether generation is, so that there is nothing to wait for."""
        self.break_off: Callable[[str], bool] = lambda rollout_id: True
        """Ends what is under way of a sample; whether nobody had begun with it."""
        self._note = note
        self.filters = filters
        self._begun: Counter[int] = Counter()
        """Units under way, by the policy's version when they were begun."""
        self._units: dict[str, Unit] = {}
        self._unwanted: set[str] = set()
        self._open: Counter[int] = Counter()
        """First visits that are not done with, by epoch."""
        self._ready: list[tuple[int, int, Unit]] = []
        self._given: list[Entry] = []
        """Handed out, and the consumer has not come back since."""
        self._numbers = count()
        self._dropped = 0
        self._is_abandoned = False
        self._changed = anyio.Event()

    # --- from the players ---------------------------------------------------------------------------------------------

    def begin(self, unit: Unit) -> None:
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
        """Records are durable."""
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

    def look_at(self, unit: Unit) -> None:
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

    def _judge(self, unit: Unit) -> None:
        """Put a finished unit where it belongs: ready, or dropped."""
        scored = [record for record in unit.records if record.outcome is Outcome.SCORED]
        fresh = [record for record in scored if self._is_fresh(record)]
        if len(scored) < self.bounds.least_scored:
            self._strike(unit, scored)
            self._drop(unit, "short", scored)
        elif len(fresh) < self.bounds.least_scored:
            self.stats.stale_rollouts += len(scored) - len(fresh)
            self._drop(unit, "stale", scored)
            self._play_again(unit)
        elif self.rules.drop_constant and self._is_useless(fresh):
            self._drop(unit, "constant", scored)
        elif self.filters and self._is_filtered(unit, fresh):
            self._drop(unit, "filtered", scored)
        else:
            oldest = min((_oldest(record, self.policy.version) for record in fresh), default=self.policy.version)
            heapq.heappush(self._ready, (oldest, next(self._numbers), unit))

    def _is_fresh(self, rollout: Rollout) -> bool:
        newest = rollout.policy_version_max
        if newest is not None and newest > self.policy.version:
            return False  # of a policy that was lost with the trainer that had made it
        bound = self.rules.max_staleness
        return bound is None or self.policy.version - _oldest(rollout, self.policy.version) <= bound

    def _is_useless(self, rollouts: list[Rollout]) -> bool:
        if not is_constant([rollout.reward for rollout in rollouts]):
            return False
        return self.rules.when_dropped == "raise" or self._dropped < self.bounds.max_dropped

    def _is_filtered(self, unit: Unit, fresh: list[Rollout]) -> bool:
        try:
            against = first_against(self.filters, self._group(unit, tuple(fresh)))
        except SupplyError as error:
            self.fail(error)
            return False
        if against is not None:
            self.stats.filtered = {**self.stats.filtered, against: self.stats.filtered.get(against, 0) + 1}
        return against is not None

    def _strike(self, unit: Unit, scored: list[Rollout]) -> None:
        """Count against a task of which nothing but faults came."""
        if scored or not all(record.outcome.kind in _BROKEN for record in unit.records):
            return
        task = unit.ticket.task
        self.strikes[task] += 1
        if self.strikes[task] == MOST_STRIKES:
            self.stats.set_aside += 1

    def is_set_aside(self, ticket: Ticket) -> bool:
        """Whether a task is not to be played any more."""
        return self.strikes[ticket.task] >= MOST_STRIKES if self.strikes else False

    def _play_again(self, unit: Unit) -> None:
        if unit.ticket.visit + 1 < MOST_VISITS:
            self.again.append(unit.ticket.again(unit.sample))
            self.stats.requeued += 1

    def _drop(self, unit: Unit, fate: Fate, scored: list[Rollout]) -> None:
        match fate:
            case "constant":
                self.stats.constant += 1
            case "stale":
                self.stats.stale += 1
            case "short":
                self.stats.short += 1
            case _:
                pass  # counted by the filter's name
        self._conclude(unit, fate, scored)
        self._dropped += 1
        is_let_through = fate == "constant" and self.rules.when_dropped == "yield"
        if self._dropped >= self.bounds.max_dropped and not is_let_through and self.failure is None:
            self.fail(SupplyError(self._explained()))

    def _explained(self) -> str:
        return (
            f"{self._dropped} groups were dropped while one batch of {self.bounds.batch} was to be filled: "
            f"{self.stats.explained()}. "
            "Give other tasks or a higher max_dropped (when_dropped='yield' lets constant groups through); "
            "`hub report` on the run's directory says what broke"
        )

    def _hand_out(self) -> RolloutGroup:
        unit = heapq.heappop(self._ready)[2]
        records = unit.records
        fresh = tuple(each for each in records if each.outcome is Outcome.SCORED and self._is_fresh(each))
        self.stats.stale_rollouts += sum(each.outcome is Outcome.SCORED for each in records) - len(fresh)
        self.stats.partial += len(fresh) < unit.size
        self.room.handed_out += 1
        self.stats.handed_out += 1
        if self.stats.handed_out % self.bounds.batch == 0:
            self._dropped = 0
        self._conclude(unit, "handed", list(fresh))
        self.change()
        return self._group(unit, fresh)

    def _group(self, unit: Unit, fresh: tuple[Rollout, ...]) -> RolloutGroup:
        kept = {record.rollout_id for record in fresh}
        return RolloutGroup(
            group_id=unit.group_id,
            environment=unit.environment,
            task=unit.task,
            rollouts=fresh,
            lost=tuple(record for record in unit.records if record.rollout_id not in kept),
            policy_version=self.policy.version,
            size=unit.size,
        )

    def _conclude(self, unit: Unit, fate: Fate, scored: list[Rollout]) -> None:
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

    def _keep(self, entry: Entry) -> None:
        if not entry.visit:
            self._open[entry.epoch] -= 1
        try:
            self._note(entry)
        except StoreError as error:
            self.fail(error)


def _oldest(rollout: Rollout, now: int) -> int:
    """The version of a rollout's oldest token; where no policy spoke, nothing is old."""
    return now if rollout.policy_version_min is None else rollout.policy_version_min
