"""Actions of a person on runs and rollouts, and the reasons why one is unavailable."""
