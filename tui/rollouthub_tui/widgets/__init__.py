"""Parts of screens: each shows one thing of a run or of a rollout."""
