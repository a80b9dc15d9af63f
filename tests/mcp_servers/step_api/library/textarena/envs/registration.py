"""The registry."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass
class Spec:
    """How a game is made."""

    entry_point: Callable[[], Any]


ENV_REGISTRY: dict[str, Spec] = {}
