"""Ports to listen on that are known beforehand."""

import socket
from contextlib import suppress
from random import SystemRandom

OURS = range(20_000, 32_000)
"""Below those that a kernel gives to whoever asks for any port, or connects: another process may get one of these
between the look and its use."""


def free_port() -> int:
    """One on the loopback that nobody listens on now, nor is given by chance."""
    for port in SystemRandom().sample(OURS, 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError(f"a hundred ports of {OURS} are taken")
