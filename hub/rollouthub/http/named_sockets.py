"""Unix sockets under host names: within a context, the hub's HTTP client reaches one as `http://NAME.localhost`.

A server without a network is reached that way by all that take a URL, such as the seats of an episode and models.
"""

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

_SUFFIX = ".localhost"
"""A domain that no name server answers for (RFC 6761, 6.3): outside its context, a name leads nowhere."""
_paths: dict[str, str] = {}
"""Host name → path of its socket."""


@contextmanager
def named_socket(path: Path, name: str | None = None) -> Generator[str]:
    """Name a socket within the context; yields its host name, a random one unless `name` is given."""
    host = name or new_host()
    _paths[host] = str(path)
    try:
        yield host
    finally:
        del _paths[host]


def new_host() -> str:
    """A host name that nothing else has."""
    return f"rollouthub-{secrets.token_hex(12)}{_SUFFIX}"


def path_of(host: str) -> str | None:
    """The path of the socket that a host name stands for; None for any other host."""
    return _paths.get(host)


def open_socket_file(path: str) -> int:
    """A descriptor of a socket's file, to be connected to as `/proc/self/fd/N` and closed.

    Its folder may be writable for a program that is not trusted: a link there, which might lead to another socket of
    this machine, is not followed.

    Raises:
        OSError: there is no socket at the path.
    """
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ConnectionRefusedError(f"{path} is no socket")
    return descriptor
