"""What foreign code raises, told apart: its own failure, or a service that is not there.

Runs in the foreign process.
"""

import errno
import socket
import traceback
from collections.abc import Callable
from typing import Any

from rollouthub_servers.foreign.serving import Refused

_OUTSIDE = ("openai", "anthropic", "httpx", "aiohttp", "requests", "prime_sandboxes", "prime_tunnel", "httpcore")
_NO_NETWORK = (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL)
_LOCAL = (BrokenPipeError, ConnectionResetError)
"""Errors of connections that were made; without a network those lead to a program that the code started itself."""
SHOWN = 300
"""Maximum number of characters of a failure's words."""


def is_outside(error: "BaseException | None") -> bool:
    """Whether the network or a service is among a failure's causes.

    A deadline of the code's own is none: there is no network to wait for, so that it is spent on what the agent said.
    """
    seen = 0
    while error is not None and seen < 20:
        if type(error).__module__.partition(".")[0] in _OUTSIDE or _is_unreachable(error):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


def _is_unreachable(error: BaseException) -> bool:
    if isinstance(error, ConnectionError):
        return not isinstance(error, _LOCAL)
    return isinstance(error, socket.gaierror) or (isinstance(error, OSError) and error.errno in _NO_NETWORK)


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
