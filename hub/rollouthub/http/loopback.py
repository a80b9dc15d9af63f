"""Listeners of this machine alone: what they are bound to, and whom they answer without a credential."""

import ipaddress

from rollouthub.http.asgi import Guard

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""What this machine calls itself."""


def is_local_host(host: str) -> bool:
    """Whether only this machine reaches what listens on an address."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def local_guard(host: str) -> Guard | None:
    """What keeps pages of browsers out, whatever name they have for this machine; None where others reach it.

    Those know it by names that it does not, and its credential alone decides.
    """
    return Guard((*LOOPBACK, host)) if is_local_host(host) else None
