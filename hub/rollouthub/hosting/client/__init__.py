"""The client side of the environment contract: environments in other processes, here or on other machines."""

from rollouthub.hosting.client.attached import attach
from rollouthub.hosting.client.served_process import serve
from rollouthub.hosting.client.server_replicas import serve_replicas

__all__ = ["attach", "serve", "serve_replicas"]
