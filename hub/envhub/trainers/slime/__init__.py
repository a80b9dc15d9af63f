"""slime: functions that its command line names.

--custom-generate-function-path envhub.trainers.slime.generate
--rollout-function-path envhub.trainers.slime.generate_rollout
--custom-rm-path envhub.trainers.slime.reward
--dynamic-sampling-filter-path envhub.trainers.slime.keep_group
--custom-reward-post-process-path envhub.trainers.slime.post_process_rewards
"""

from envhub.trainers.slime.engine import GenerationAborted, SglangEngine
from envhub.trainers.slime.groups import keep_group, post_process_rewards
from envhub.trainers.slime.reward import reward
from envhub.trainers.slime.rollout import generate, generate_rollout
from envhub.trainers.slime.sample import samples_of, task_of

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
