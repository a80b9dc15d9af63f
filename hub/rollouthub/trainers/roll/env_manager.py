"""`HubEnvManager`: ROLL's manager of proxied episodes, changed so that each step gets the reward of its turn.

ROLL's own manager puts the whole score on the last step and ignores the `step_scores` of its runner.
"""

import json
from collections.abc import Sequence
from typing import Any

from rollouthub.export import seat_id
from rollouthub.trainers.roll.play import UNSCORED
from rollouthub.trainers.systems import system_module

STEP_SEATS = "rollouthub_step_seats"
"""Key in a result's metrics for the seat of each step, and the seat's reward."""


def placed(batch: Any, step_scores: Sequence[float], seats: Sequence[tuple[str, float]]) -> Any:
    """ROLL's batch of an episode's steps, with each step's own score on its last token, and one `traj_id` and one
    `traj_group_id` for each seat; `seats` has the seat of each step, and its reward.

    ROLL sums later rewards over the rows of one `traj_id`, but its manager gives each step a separate one. If the steps
    are not exactly the scored ones, for example because ROLL dropped a step, the batch of an episode with one seat is
    returned unchanged, with its score on the last step; one with several is marked as unscored.
    """
    numbers = [int(step) for step in batch.non_tensor_batch["step"]]
    if sorted(numbers) != list(range(len(step_scores))):
        return batch if len({seat for seat, _ in seats}) < 2 else _unscored(batch, len(numbers), len(step_scores))
    for place, number in enumerate(numbers):
        value = float(step_scores[number])
        last = int(batch.batch["attention_mask"][place].sum()) - 1
        batch.batch["scores"][place] = 0.0
        batch.batch["scores"][place, last] = value
        batch.non_tensor_batch["step_scores"][place] = value
    if numbers:
        names, groups = batch.non_tensor_batch["traj_id"], batch.non_tensor_batch["traj_group_id"]
        name = str(names[numbers.index(0)]).removesuffix("_b0")
        for place, number in enumerate(numbers):
            seat, reward = seats[number]
            names[place], groups[place] = seat_id(name, seat), seat_id(str(groups[place]), seat)
            batch.non_tensor_batch["episode_scores"][place] = reward
    return batch


def _unscored(batch: Any, count: int, wanted: int) -> Any:
    """The batch of an episode whose seats cannot be told apart, with a reason for which `HubGroupFilter` drops it."""
    reason = f"{UNSCORED}ROLL kept {count} of its {wanted} steps, and it is not known of which seats"
    for place, text in enumerate(batch.non_tensor_batch["trajectory_data"]):
        batch.non_tensor_batch["trajectory_data"][place] = json.dumps({**json.loads(text), "finish_reason": reason})
    return batch


def env_manager() -> Any:
    """Create `HubEnvManager` as a subclass of ROLL's `ProxyEnvManager`."""
    base: Any = system_module("roll.pipeline.agentic.env_manager.proxy_env_manager").ProxyEnvManager

    class HubEnvManager(base):
        """For `env_manager_cls`, with `HubAgentRunner` and `trajectory_mode: step`."""

        def formulate_rollouts(self, harbor_result: dict[str, Any]) -> Any:
            """An episode as the batch that ROLL trains on."""
            rolls: Any = super()
            batch = rolls.formulate_rollouts(harbor_result)
            is_step = getattr(self, "trajectory_mode", None) == "step"
            if not is_step or not (step_scores := harbor_result.get("step_scores")):
                return batch
            return placed(batch, step_scores, harbor_result[STEP_SEATS])

    HubEnvManager.__module__ = "rollouthub.trainers.roll"
    return HubEnvManager
