"""The user of the process at the other end of a unix socket."""

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")
ROOT = 0


def peer_user(connection: socket.socket) -> int | None:
    """The user id of the process at the other end; None if the system does not say, so that only file modes protect."""
    if not hasattr(socket, "SO_PEERCRED"):
        return None
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return _CREDENTIALS.unpack(found)[1]


def is_trusted(connection: socket.socket) -> bool:
    """Whether the process at the other end is this user's, or root's."""
    return peer_user(connection) in (None, os.geteuid(), ROOT)
