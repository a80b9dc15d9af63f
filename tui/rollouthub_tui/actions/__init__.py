"""What a person can do to a run and its rollouts, and why it cannot be done now."""
