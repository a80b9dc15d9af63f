"""Inference engines for adapters: trainers' own engines, and gateways that record the calls of each rollout."""
