"""Tinker: its sampling clients as the policy's engine, training rows as its `Datum`s, and environments of its cookbook.

`HubEnv`, `HubGroup` and `HubDatasetBuilder` derive from tinker-cookbook's classes and are made on first access.
"""

from typing import TYPE_CHECKING, Any

from rollouthub.trainers.tinker.datums import datums_of
from rollouthub.trainers.tinker.tinker_engine import TinkerEngine

if TYPE_CHECKING:
    HubDatasetBuilder: Any
    HubEnv: Any
    HubGroup: Any

__all__ = ["HubDatasetBuilder", "HubEnv", "HubGroup", "TinkerEngine", "datums_of"]


def __getattr__(name: str) -> Any:
    """Create a class on first access, because that imports tinker-cookbook."""
    if name not in ("HubDatasetBuilder", "HubEnv", "HubGroup"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from rollouthub.trainers.tinker import cookbook_data

    made = {
        "HubDatasetBuilder": cookbook_data.builder_class,
        "HubEnv": cookbook_data.env_class,
        "HubGroup": cookbook_data.group_class,
    }[name]()
    globals()[name] = made
    return made
