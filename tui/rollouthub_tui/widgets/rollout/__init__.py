"""The parts of the screen of one rollout."""
