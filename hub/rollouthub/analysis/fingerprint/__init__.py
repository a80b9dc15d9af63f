"""The fingerprint of an environment: what it has, what playing it costs, and what a run says of its tasks."""

from rollouthub.analysis.fingerprint.fingerprint import Fingerprint, PlayedSample
from rollouthub.analysis.fingerprint.played import PlayedShare, read_played

__all__ = ["Fingerprint", "PlayedSample", "PlayedShare", "read_played"]
