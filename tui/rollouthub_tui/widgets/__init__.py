"""Widgets: each shows one part of a run or of a rollout."""
