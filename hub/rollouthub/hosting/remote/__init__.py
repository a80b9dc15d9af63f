"""Environments in processes of their own, or anywhere: the contract's client side."""

from rollouthub.hosting.remote.attach import attach
from rollouthub.hosting.remote.replicas import serve_replicas
from rollouthub.hosting.remote.serve import serve

__all__ = ["attach", "serve", "serve_replicas"]
