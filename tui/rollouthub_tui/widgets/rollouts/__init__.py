"""The tables of a run's rollouts and tasks, fast for runs of any length."""
