"""Which finished units are handed out: enough scored samples, fresh, not constant, and passed by the filters."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.errors import SupplyError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.trainers.stream.group_filters import GroupFilter, first_against
from rollouthub.trainers.stream.ledger import Fate
from rollouthub.trainers.stream.pending_group import PendingGroup
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.rollout_group import RolloutGroup, is_constant_group
from rollouthub.trainers.stream.stream_rules import Bounds, SupplyRules


@dataclass(frozen=True, slots=True)
class Sifted:
    """The judgement of a unit at the current policy version."""

    scored: list[Rollout]
    fresh: list[Rollout]
    """The scored rollouts that are not too stale to be trained on."""
    fate: Fate | None = None
    """Why the unit is dropped; None if it is kept."""
    against: str | None = None
    """The name of the filter that rejects the unit."""
    failure: SupplyError | None = None
    """The error of a filter that raised; the unit is then not judged."""


class Acceptance:
    """Judges units by a supply's rules, without changing them."""

    def __init__(
        self, rules: SupplyRules, bounds: Bounds, policy: PolicyVersions, filters: Sequence[GroupFilter]
    ) -> None:
        self._rules, self._bounds, self._policy = rules, bounds, policy
        self.filters = filters
        self.dropped = 0
        """Units dropped since the last full batch was handed out; `GroupTracker` counts them."""

    def sift(self, unit: PendingGroup) -> Sifted:
        """Judge a finished unit at the current policy version."""
        scored = [record for record in unit.records if record.outcome is Outcome.SCORED]
        fresh = [record for record in scored if self.is_fresh(record)]
        if len(scored) < self._bounds.least_scored:
            return Sifted(scored, fresh, "short")
        if len(fresh) < self._bounds.least_scored:
            return Sifted(scored, fresh, "stale")
        if self._rules.drop_constant and self._is_useless(fresh):
            return Sifted(scored, fresh, "constant")
        try:
            against = first_against(self.filters, self.group(unit, fresh)) if self.filters else None
        except SupplyError as error:
            return Sifted(scored, fresh, failure=error)
        return Sifted(scored, fresh, None if against is None else "filtered", against)

    def is_fresh(self, rollout: Rollout) -> bool:
        """Whether a rollout is within the staleness bound, and not from a policy newer than the current one."""
        newest = rollout.policy_version_max
        if newest is not None and newest > self._policy.version:
            return False  # of a policy that was lost with the trainer that had made it
        bound = self._rules.max_staleness
        return bound is None or self._policy.version - self._oldest(rollout) <= bound

    def oldest(self, fresh: Sequence[Rollout]) -> int:
        """The lowest policy version of any token in the rollouts; the current version if there are none."""
        return min((self._oldest(record) for record in fresh), default=self._policy.version)

    def group(self, unit: PendingGroup, fresh: Sequence[Rollout]) -> RolloutGroup:
        """The `RolloutGroup` that is handed out for a unit."""
        kept = {record.rollout_id for record in fresh}
        return RolloutGroup(
            group_id=unit.group_id,
            environment=unit.environment,
            task=unit.task,
            rollouts=tuple(fresh),
            lost=tuple(record for record in unit.records if record.rollout_id not in kept),
            policy_version=self._policy.version,
            size=unit.size,
        )

    def is_clogged_by(self, fate: Fate) -> bool:
        """Whether the limit of dropped units is reached; `fate` is the reason of the last drop."""
        is_let_through = fate == "constant" and self._rules.when_dropped == "yield"
        return self.dropped >= self._bounds.max_dropped and not is_let_through

    def _is_useless(self, rollouts: list[Rollout]) -> bool:
        if not is_constant_group(rollouts):
            return False
        return self._rules.when_dropped == "raise" or self.dropped < self._bounds.max_dropped

    def _oldest(self, rollout: Rollout) -> int:
        """The lowest policy version in a rollout; the current version if no policy spoke in it."""
        return self._policy.version if rollout.policy_version_min is None else rollout.policy_version_min
