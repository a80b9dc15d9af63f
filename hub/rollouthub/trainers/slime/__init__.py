"""slime: functions to name on slime's command line, such as `--rollout-function-path` and `--custom-rm-path`.

They are `rollouthub.trainers.slime.` and `generate`, `generate_rollout`, `reward`, `keep_group` or
`post_process_rewards`. Begin with `rollout.py`.
"""

from rollouthub.models.tokens.sglang_engine import SglangEngine
from rollouthub.trainers.slime.group_hooks import keep_group, post_process_rewards
from rollouthub.trainers.slime.reward import reward
from rollouthub.trainers.slime.rollout import generate, generate_rollout
from rollouthub.trainers.slime.sample import samples_of, task_of
from rollouthub.trainers.slime.slime_engine import GenerationAborted

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
