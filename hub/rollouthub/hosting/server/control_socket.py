"""Where a control plane listens: a unix socket of this user alone, or an address."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.http.asgi import Guard
from rollouthub.http.listener import bind_tcp, bind_unix
from rollouthub.http.loopback import LOOPBACK

_LOCAL_URLS = ("http://127.0.0.1:", "http://localhost:", "http://[::1]:")


@contextmanager
def control_socket(address: str) -> Generator[tuple[socket.socket, str]]:
    """A bound socket and its URL, for `unix:PATH` or `HOST:PORT`; closed on the way out, its file removed.

    Raises:
        ConfigError: the address is none, or cannot be had.
    """
    if address.startswith("unix:"):
        path = str(Path(address.removeprefix("unix:")).absolute())
        bound, url = bind_unix(path), f"unix:{path}"
    else:
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"--control {address!r} is neither unix:PATH nor HOST:PORT")
        bound = bind_tcp(host.strip("[]"), int(port))
        url = f"http://{authority(host.strip('[]'), bound)}"
    try:
        yield bound, url
    finally:
        bound.close()
        if url.startswith("unix:"):
            Path(url.removeprefix("unix:")).unlink(missing_ok=True)


def control_guard(url: str) -> Guard | None:
    """Who may ask there.

    Browsers, which names are rebound for, cannot reach a unix socket; beyond this machine the credential alone decides.
    """
    return Guard(LOOPBACK) if url.startswith(_LOCAL_URLS) else None


def authority(host: str, bound: socket.socket) -> str:
    """`HOST:PORT` as URLs have it."""
    port = bound.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
