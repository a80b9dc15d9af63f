"""DanceGRPO: rewards of generated pictures for the block of its scripts that scores them, and its list of captions."""

from rollouthub.trainers.dance_grpo.picture_rewards import (
    Captions,
    ImageRewards,
    image_advantages,
    image_rewards,
    judge_images,
    write_captions,
)

__all__ = ["Captions", "ImageRewards", "image_advantages", "image_rewards", "judge_images", "write_captions"]
