"""An environment as episodes: hosted in this process, reached in another one, or served to others.

Imports `models`, `http` and below. Begin with `open_host.py`.
"""

from rollouthub.hosting.local.host import InProcessHost

__all__ = ["InProcessHost"]
