"""EasyR1: a reward file for `worker.reward.reward_function`, and rows of its data sets.

EasyR1 loads this file by its path, and reads `compute_score`, `REWARD_NAME` and `REWARD_TYPE` from it.
"""

from rollouthub.trainers.easyr1.batch_reward import (
    REWARD_NAME,
    REWARD_TYPE,
    RewardInput,
    compute_score,
    filled,
    prompt_rows,
    values,
)
from rollouthub.trainers.verl.prompts import write_prompts

__all__ = [
    "REWARD_NAME",
    "REWARD_TYPE",
    "RewardInput",
    "compute_score",
    "filled",
    "prompt_rows",
    "values",
    "write_prompts",
]
