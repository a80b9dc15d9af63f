"""The process sandbox: programs in processes of this machine, behind what walls the machine allows."""

from envhub_sandboxes.process.finished import Finished, Output
from envhub_sandboxes.process.sandbox import ProcessSandbox, process_sandbox

__all__ = ["Finished", "Output", "ProcessSandbox", "process_sandbox"]
