"""Scoring without playing: stored or foreign completions from JSON lines, and a run's rollouts once more."""
