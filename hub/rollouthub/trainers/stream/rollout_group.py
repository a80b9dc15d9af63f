"""The unit that a supply hands out: the samples of one pass over one task."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.authoring.rewards import is_constant
from rollouthub.rollout import EnvironmentRef, Rollout, TaskRef


def is_constant_group(rollouts: Sequence[Rollout]) -> bool:
    """Whether all rewards are equal; if the verifier rewards seats separately, for every trained seat."""
    if not any(each.score is not None and each.score.seat_rewards for each in rollouts):
        return is_constant([each.reward for each in rollouts])
    seats = {turn.agent for each in rollouts for turn in each.policy_turns}
    return all(is_constant([each.reward_of(seat) for each in rollouts]) for seat in seats)


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """The scored samples of a task. They share the environment's seed, but have different policy seeds."""

    group_id: str
    environment: EnvironmentRef
    task: TaskRef
    rollouts: tuple[Rollout, ...]
    """The rollouts that are scored and fresh enough, in the order of their samples."""
    lost: tuple[Rollout, ...] = ()
    """The other members: unscored or too stale. They must not be trained on."""
    policy_version: int = 0
    """The supply's policy version when the group was handed out."""
    size: int = 0
    """How many members complete the group; `rollouts` has fewer if some were lost and `min_group` allows that."""

    @property
    def rewards(self) -> tuple[float, ...]:
        """The rewards of `rollouts`, in their order."""
        return tuple(rollout.reward for rollout in self.rollouts if rollout.reward is not None)

    @property
    def is_constant(self) -> bool:
        """Whether all members have equal rewards, at every trained seat."""
        return is_constant_group(self.rollouts)

    @property
    def policy_version_min(self) -> int | None:
        """The lowest policy version of any token; None if no policy spoke."""
        known = [each.policy_version_min for each in self.rollouts if each.policy_version_min is not None]
        return min(known, default=None)

    @property
    def policy_version_max(self) -> int | None:
        """The highest policy version of any token; None if no policy spoke."""
        known = [each.policy_version_max for each in self.rollouts if each.policy_version_max is not None]
        return max(known, default=None)

    @property
    def staleness(self) -> int:
        """How many versions the oldest token was behind the policy when the group was handed out."""
        oldest = self.policy_version_min
        return 0 if oldest is None else self.policy_version - oldest
