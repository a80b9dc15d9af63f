"""What foreign code raises, told apart: its own failure, or a service that is not there.

Runs in the foreign process.
"""

import traceback
from collections.abc import Callable
from typing import Any

from rollouthub_servers.foreign.serving import Refused

_OUTSIDE = ("openai", "anthropic", "httpx", "aiohttp", "requests", "prime_sandboxes", "prime_tunnel", "httpcore")
SHOWN = 300
"""Maximum number of characters of a failure's words."""


def is_outside(error: "BaseException | None") -> bool:
    """Whether the network or a service is among a failure's causes."""
    seen = 0
    while error is not None and seen < 20:
        if type(error).__module__.partition(".")[0] in _OUTSIDE or isinstance(error, ConnectionError | TimeoutError):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def failures_returned(act: "Callable[..., Any]") -> "Callable[..., Any]":
    """The function, changed to return what the foreign code raises; a missing service is still raised."""

    def answer(**given: Any) -> Any:
        try:
            return act(**given)
        except Refused:
            raise
        except Exception as error:
            if is_outside(error):
                raise
            traceback.print_exc()
            return {"broke": f"{type(error).__name__}: {error}"[:SHOWN]}

    return answer
