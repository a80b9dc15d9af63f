"""The screens: runs, a run, a rollout, a pair of rollouts, a comparison of runs, and dialogs."""
