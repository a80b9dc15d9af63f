"""`swe`: a repository, a problem statement, and hidden tests that must pass; built on `terminal`."""

from rollouthub_servers.swe.swe_environment import Swe
from rollouthub_servers.swe.swe_row import SweConfig

__all__ = ["Swe", "SweConfig"]
