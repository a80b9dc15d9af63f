"""The file for OpenRLHF's `--reward.remote_url`: it defines `reward_func`."""

from rollouthub.trainers.openrlhf import reward_func

__all__ = ["reward_func"]
