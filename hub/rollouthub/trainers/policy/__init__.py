"""A policy in memory: sampling from a `transformers` model with its current weights, and serving it over HTTP."""
