"""Names."""

# pyright: basic

from typing import Any


def is_registry_object(part: Any) -> bool:
    """Whether it has one."""
    return hasattr(part, "__name__")


def registry_unqualified_name(part: Any) -> str:
    """It."""
    return part.__name__
