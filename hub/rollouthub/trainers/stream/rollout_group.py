"""What is handed out: all samples of one task, of one visit to it."""

from dataclasses import dataclass

from rollouthub.authoring.rewards import is_constant
from rollouthub.rollout import EnvironmentRef, Rollout, TaskRef


@dataclass(frozen=True, slots=True)
class RolloutGroup:
    """The scored samples of a task. They share the environment's seed, and differ in the policy's."""

    group_id: str
    environment: EnvironmentRef
    task: TaskRef
    rollouts: tuple[Rollout, ...]
    """Scored and fresh enough, by sample."""
    lost: tuple[Rollout, ...] = ()
    """The other members: not scored, or too stale. They have no reward, and count as none."""
    policy_version: int = 0
    """The supply's when it was handed out."""
    size: int = 0
    """Members that were asked for; fewer are in `rollouts` where some are lost and `min_group` lets that pass."""

    @property
    def rewards(self) -> tuple[float, ...]:
        """Of `rollouts`, in their order."""
        return tuple(rollout.reward for rollout in self.rollouts if rollout.reward is not None)

    @property
    def is_constant(self) -> bool:
        """Whether all rewards are equal, so that no member did better than another."""
        return is_constant(self.rewards)

    @property
    def policy_version_min(self) -> int | None:
        """The version of the oldest token; None where no policy spoke."""
        known = [each.policy_version_min for each in self.rollouts if each.policy_version_min is not None]
        return min(known, default=None)

    @property
    def policy_version_max(self) -> int | None:
        """The version of the newest token."""
        known = [each.policy_version_max for each in self.rollouts if each.policy_version_max is not None]
        return max(known, default=None)

    @property
    def staleness(self) -> int:
        """Versions the oldest token was behind the policy when the group was handed out."""
        oldest = self.policy_version_min
        return 0 if oldest is None else self.policy_version - oldest
