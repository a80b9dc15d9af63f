"""Rollout workers for adapters of trainers that call the hub's functions and never signal a beginning or an end."""
