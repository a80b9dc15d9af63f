"""Detects addresses that only this machine can reach, and makes the guard of listeners on them."""

import ipaddress

from rollouthub.http.asgi import Guard
from rollouthub.http.named_sockets import path_of

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""Names and addresses of this machine's loopback interface."""


def is_local_host(host: str) -> bool:
    """Whether an address can be reached only from this machine."""
    try:
        return host == "localhost" or path_of(host) is not None or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def local_guard(host: str) -> Guard | None:
    """The guard that keeps out browsers' pages; None for an address that other machines can reach.

    Other machines may use host names that this machine does not know, so there only the credential decides.
    """
    return Guard((*LOOPBACK, host)) if is_local_host(host) else None
