"""What a finished unit must be to be handed out: whole, fresh, worth learning from, and what its filters keep."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.authoring.rewards import is_constant
from rollouthub.errors import SupplyError
from rollouthub.rollout import Outcome, Rollout
from rollouthub.trainers.stream.group_filters import GroupFilter, first_against
from rollouthub.trainers.stream.ledger import Fate
from rollouthub.trainers.stream.pending_group import PendingGroup
from rollouthub.trainers.stream.policy_version import PolicyVersions
from rollouthub.trainers.stream.rollout_group import RolloutGroup
from rollouthub.trainers.stream.stream_rules import Bounds, SupplyRules


@dataclass(frozen=True, slots=True)
class Sifted:
    """What a unit comes to at a version of the policy."""

    scored: list[Rollout]
    fresh: list[Rollout]
    """Those of the scored that may be learnt from yet."""
    fate: Fate | None = None
    """Why it is dropped; None keeps it."""
    against: str | None = None
    """The filter that does not keep it."""
    failure: SupplyError | None = None
    """A filter broke, so that nothing is said against the unit."""


class Acceptance:
    """Judges units by a supply's rules, and changes nothing."""

    def __init__(
        self, rules: SupplyRules, bounds: Bounds, policy: PolicyVersions, filters: Sequence[GroupFilter]
    ) -> None:
        self._rules, self._bounds, self._policy = rules, bounds, policy
        self.filters = filters
        self.dropped = 0
        """Units dropped while the present batch is filled, as the desk counts them."""

    def sift(self, unit: PendingGroup) -> Sifted:
        """Judge a finished unit."""
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
        """Whether a rollout may be learnt from yet."""
        newest = rollout.policy_version_max
        if newest is not None and newest > self._policy.version:
            return False  # of a policy that was lost with the trainer that had made it
        bound = self._rules.max_staleness
        return bound is None or self._policy.version - self._oldest(rollout) <= bound

    def oldest(self, fresh: Sequence[Rollout]) -> int:
        """The version of the oldest token of some rollouts."""
        return min((self._oldest(record) for record in fresh), default=self._policy.version)

    def group(self, unit: PendingGroup, fresh: Sequence[Rollout]) -> RolloutGroup:
        """A unit as it is handed out."""
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
        """Whether too much was dropped, of which a unit of this fate is the last."""
        is_let_through = fate == "constant" and self._rules.when_dropped == "yield"
        return self.dropped >= self._bounds.max_dropped and not is_let_through

    def _is_useless(self, rollouts: list[Rollout]) -> bool:
        if not is_constant([rollout.reward for rollout in rollouts]):
            return False
        return self._rules.when_dropped == "raise" or self.dropped < self._bounds.max_dropped

    def _oldest(self, rollout: Rollout) -> int:
        """Where no policy spoke, nothing is old."""
        return self._policy.version if rollout.policy_version_min is None else rollout.policy_version_min
