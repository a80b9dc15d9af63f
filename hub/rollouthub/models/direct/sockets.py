"""Sockets to model servers: how many can be open, and TCP keepalive to detect peers that are gone."""

import resource
import socket
from typing import Any

# A first probe after so many seconds of silence, then every so many, and so many without an answer end it.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}
_SPARE_FILES = 128


def probed_socket(address: Any) -> socket.socket:
    """A socket with TCP keepalive.

    An answer may take ten minutes without a byte. Without keepalive, routers drop such idle connections, and the loss
    of the server is noticed only at the call's timeout.
    """
    made = socket.socket(*address[:3])
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # not all systems have all of them
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made


def most_connections(wanted: int) -> int:
    """How many sockets this process can have open, at most `wanted`."""
    # Sockets beyond the limit of open files would fail every call; waiting for one is only slower.
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if files < 0 else min(wanted, max(files - _SPARE_FILES, files // 2))
