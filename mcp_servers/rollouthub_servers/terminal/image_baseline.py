"""The result of a task's tests on its untouched image, and its programs' paths; measured once per image."""

from dataclasses import dataclass, field

import anyio

from rollouthub_servers.terminal.protected_paths import Protected
from rollouthub_servers.terminal.reward import Rewards


@dataclass
class Untouched:
    """One image with one step's tests."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    protected: Protected | None = None
    is_tried: bool = False
    """Whether its tests were run."""
    rewards: Rewards | None = None
    """None where they gave none."""
    refused: tuple[str, ...] = ()
    """Hosts that its tests could not reach for want of a network."""
    is_solved_offline: bool = False
    """Whether somebody's work was rewarded although they could not."""


_KNOWN: dict[str, Untouched] = {}
_MOST = 10_000


def untouched(key: str) -> Untouched:
    """What is known of an image and its tests, in this process."""
    if key not in _KNOWN and len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    return _KNOWN.setdefault(key, Untouched())
