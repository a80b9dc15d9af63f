"""Sandboxes in processes of this machine, behind what walls the machine allows."""

from envhub_sandboxes.process.finished import Finished, Output
from envhub_sandboxes.process.provider import ProcessProvider, process_provider
from envhub_sandboxes.process.sandbox import ProcessSandbox, process_sandbox

__all__ = ["Finished", "Output", "ProcessProvider", "ProcessSandbox", "process_provider", "process_sandbox"]
