"""What the screen of one rollout is made of."""
