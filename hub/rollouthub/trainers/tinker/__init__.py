"""Tinker: its sampling clients as the policy's engine, and training rows as its `Datum`s. Begin with `datums.py`."""

from rollouthub.trainers.tinker.datums import datums_of
from rollouthub.trainers.tinker.tinker_engine import TinkerEngine

__all__ = ["TinkerEngine", "datums_of"]
