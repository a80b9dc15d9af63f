"""`HubEnvManager`: ROLL's manager of proxied episodes, changed so that each step gets the reward of its turn.

ROLL's own manager puts the whole score on the last step and ignores the `step_scores` of its runner.
"""

from collections.abc import Sequence
from typing import Any

from rollouthub.trainers.systems import system_module


def placed(batch: Any, step_scores: Sequence[float]) -> Any:
    """ROLL's batch of an episode's steps, with each step's own score on its last token and one `traj_id` for all steps.

    ROLL sums later rewards over the rows of one `traj_id`, but its manager gives each step a separate one. The batch is
    returned unchanged if its steps are not exactly the scored ones, for example because ROLL dropped a step.
    """
    numbers = [int(step) for step in batch.non_tensor_batch["step"]]
    if sorted(numbers) != list(range(len(step_scores))):
        return batch
    for place, number in enumerate(numbers):
        value = float(step_scores[number])
        last = int(batch.batch["attention_mask"][place].sum()) - 1
        batch.batch["scores"][place] = 0.0
        batch.batch["scores"][place, last] = value
        batch.non_tensor_batch["step_scores"][place] = value
    if numbers:
        names = batch.non_tensor_batch["traj_id"]
        names[:] = str(names[numbers.index(0)]).removesuffix("_b0")
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
            return placed(batch, harbor_result.get("step_scores") or ()) if is_step else batch

    HubEnvManager.__module__ = "rollouthub.trainers.roll"
    return HubEnvManager
