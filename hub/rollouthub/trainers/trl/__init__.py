"""TRL: tasks, episodes and rewards of the hub for its `GRPOTrainer`, and a worker for the asynchronous trainer.

TRL is imported only when a class of TRL is needed.
"""

from rollouthub.trainers.trl.asynchronous import HubRolloutWorker
from rollouthub.trainers.trl.prompts import prompt_rows, prompts_of, task_of
from rollouthub.trainers.trl.rollouts import hub_reward, rollout_func
from rollouthub.trainers.trl.spec import HubSpec

__all__ = ["HubRolloutWorker", "HubSpec", "hub_reward", "prompt_rows", "prompts_of", "rollout_func", "task_of"]
