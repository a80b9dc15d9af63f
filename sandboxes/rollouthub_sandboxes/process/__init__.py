"""Sandboxes in processes of this machine, behind what walls the machine allows."""

from rollouthub_sandboxes.process.provider import ProcessProvider, process_provider

__all__ = ["ProcessProvider", "process_provider"]
