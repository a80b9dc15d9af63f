"""DanceGRPO: rewards of generated pictures, for the scoring part of its scripts, and a file of captions to train on."""

from rollouthub.trainers.dance_grpo.picture_rewards import (
    Captions,
    ImageRewards,
    image_advantages,
    image_rewards,
    judge_images,
    write_captions,
)

__all__ = ["Captions", "ImageRewards", "image_advantages", "image_rewards", "judge_images", "write_captions"]
