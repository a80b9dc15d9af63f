"""Episodes of an environment, hosted in this process, in another process, or for other programs.

Imports `models`, `http` and below. Begin with `open_host.py`.
"""

from rollouthub.hosting.local.host import InProcessHost

__all__ = ["InProcessHost"]
