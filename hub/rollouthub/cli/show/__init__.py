"""`hub show`: shows a run's figures and rollouts, or one rollout in full."""
