"""Scoring without playing: scores stored or foreign completions from JSON lines, and scores a run's rollouts again."""
