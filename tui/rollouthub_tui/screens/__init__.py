"""The screens: runs, a run, a rollout, two rollouts, two runs; and what asks a person something."""
