"""Where an engine listens: a unix socket, or TCP with or without TLS."""

import asyncio
import os
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rollouthub.errors import ConfigError

TCP_PORT, TLS_PORT = 2375, 2376


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one engine, written as in `DOCKER_HOST`."""

    url: str
    """`unix:///path` or `tcp://host:port`."""
    certificates: Path | None = None
    """Folder with `ca.pem`, `cert.pem` and `key.pem`; if set, TCP connections use TLS."""

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a connection to the engine.

        Raises:
            OSError: no process listens there.
        """
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return await asyncio.open_unix_connection(parts.path)
        port = parts.port or (TLS_PORT if self.certificates else TCP_PORT)
        return await asyncio.open_connection(parts.hostname, port, ssl=self.tls())

    def tls(self) -> ssl.SSLContext | None:
        """The TLS settings of the connection; None without TLS."""
        if self.certificates is None:
            return None
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        context.load_cert_chain(self.certificates / "cert.pem", self.certificates / "key.pem")
        return context


def addresses(environment: Mapping[str, str] = os.environ) -> list[Address]:
    """The addresses to try, the likeliest first; only `DOCKER_HOST` where it is set.

    Raises:
        ConfigError: `DOCKER_HOST` has a form that is not supported.
    """
    if host := environment.get("DOCKER_HOST"):
        if not host.startswith(("unix://", "tcp://")):
            raise ConfigError(f"DOCKER_HOST is {host!r}; only unix:///path and tcp://host:port are served")
        if not host.startswith("tcp://") or not environment.get("DOCKER_TLS_VERIFY"):
            return [Address(host)]
        return [Address(host, Path(environment.get("DOCKER_CERT_PATH") or Path.home() / ".docker"))]
    sockets = ["/var/run/docker.sock"]
    if runtime := environment.get("XDG_RUNTIME_DIR"):
        sockets.append(f"{runtime}/podman/podman.sock")
    sockets.append("/run/podman/podman.sock")
    return [Address(f"unix://{path}") for path in sockets if Path(path).is_socket()]
