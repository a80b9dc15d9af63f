"""A policy in memory: a model of `transformers` as it stands, sampled from, and served over HTTP."""
