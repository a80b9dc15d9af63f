"""`swe`: a repository, a problem in words, and hidden tests that must come to pass; a form of `terminal`."""

from rollouthub_servers.swe.swe_environment import Swe
from rollouthub_servers.swe.swe_row import SweConfig

__all__ = ["Swe", "SweConfig"]
