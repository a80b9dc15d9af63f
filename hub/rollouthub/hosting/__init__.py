"""Hosting an environment class inside this process: the contract without a wire."""

from rollouthub.hosting.local.host import InProcessHost

__all__ = ["InProcessHost"]
