"""Environments in processes of their own, or anywhere: the contract's client side."""

from rollouthub.hosting.client.attached import attach
from rollouthub.hosting.client.served_process import serve
from rollouthub.hosting.client.server_replicas import serve_replicas

__all__ = ["attach", "serve", "serve_replicas"]
