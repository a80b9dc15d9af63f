"""Environments in processes of their own, or anywhere: the contract's client side."""

from envhub.hosting.remote.attach import attach
from envhub.hosting.remote.replicas import serve_replicas
from envhub.hosting.remote.serve import serve

__all__ = ["attach", "serve", "serve_replicas"]
