"""Process sandboxes: processes of this machine, isolated by bubblewrap where it works, else only by resource limits."""

from rollouthub_sandboxes.process.provider import ProcessProvider, process_provider

__all__ = ["ProcessProvider", "process_provider"]
