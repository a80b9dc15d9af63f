"""The result of a task's tests on its untouched image, and the image's protected paths; measured once per image."""

from dataclasses import dataclass, field

import anyio

from rollouthub_servers.terminal.protected_paths import Protected
from rollouthub_servers.terminal.reward import Rewards


@dataclass
class Untouched:
    """What is known of one image with one step's tests."""

    lock: anyio.Lock = field(default_factory=anyio.Lock)
    protected: Protected | None = None
    is_tried: bool = False
    """Whether the tests were run on the untouched image."""
    rewards: Rewards | None = None
    """The rewards of the untouched image; None if there were none."""
    refused: tuple[str, ...] = ()
    """Hosts that the tests could not reach without a network."""
    can_begin: bool | None = None
    """Whether a step can begin in a container that no agent was in; None if that was not tried."""
    is_solved_offline: bool = False
    """Whether any work got a reward although hosts could not be reached."""


_KNOWN: dict[str, Untouched] = {}
_MOST = 10_000


def untouched(key: str) -> Untouched:
    """What this process knows of an image and its tests."""
    if key not in _KNOWN and len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    return _KNOWN.setdefault(key, Untouched())
