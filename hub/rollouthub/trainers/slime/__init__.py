"""slime: functions to name on slime's command line.

--custom-generate-function-path rollouthub.trainers.slime.generate
--rollout-function-path rollouthub.trainers.slime.generate_rollout
--custom-rm-path rollouthub.trainers.slime.reward
--dynamic-sampling-filter-path rollouthub.trainers.slime.keep_group
--custom-reward-post-process-path rollouthub.trainers.slime.post_process_rewards
"""

from rollouthub.trainers.slime.group_hooks import keep_group, post_process_rewards
from rollouthub.trainers.slime.reward import reward
from rollouthub.trainers.slime.rollout import generate, generate_rollout
from rollouthub.trainers.slime.sample import samples_of, task_of
from rollouthub.trainers.slime.sglang_engine import GenerationAborted, SglangEngine

__all__ = [
    "GenerationAborted",
    "SglangEngine",
    "generate",
    "generate_rollout",
    "keep_group",
    "post_process_rewards",
    "reward",
    "samples_of",
    "task_of",
]
