"""Pictures for trainers of vision-language policies: in prompts, by the policy's processor, and as tensors to train
on.
"""
