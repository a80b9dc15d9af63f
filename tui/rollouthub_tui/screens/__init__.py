"""The screens: the list of runs, a run, a rollout, two rollouts, a comparison of two runs, and the help."""
