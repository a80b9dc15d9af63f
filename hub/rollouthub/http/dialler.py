"""Opens the HTTP client's connections: addresses of a name, TLS, sockets that notice a peer that is gone."""

import asyncio
import errno
import os
import socket
import ssl
from functools import cached_property
from typing import Any

from aiohappyeyeballs import start_connection  # pyright: ignore[reportUnknownVariableType]  # its bare `tuple`
from yarl import URL

from rollouthub.http.named_sockets import open_socket_file, path_of
from rollouthub.http.no_answer import NotConnected

CONNECT_SECONDS = 15.0
_ADDRESS_SECONDS = 300.0
"""Seconds for which a name's addresses are remembered."""
_NEXT_ADDRESS_SECONDS = 0.25
"""Seconds after which a name's next address is tried as well (RFC 8305, 8)."""
# A first probe after so many seconds of silence, then every so many, and so many without an answer end it.
_PROBES = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}

Address = tuple[int, int, int, str, tuple[Any, ...]]
"""Family, type, protocol, name and address, as `getaddrinfo` returns them."""


class Dialler:
    """Opens connections to the hosts of URLs, named sockets among them, or all to one Unix socket."""

    def __init__(self, unix_path: str | None) -> None:
        self._unix_path = unix_path
        self._loop = asyncio.get_running_loop()
        self._known: dict[tuple[str, int], tuple[float, list[Address]]] = {}
        """Host and port → when they were looked up, and the addresses, the next to use first."""
        self._lookup = asyncio.Lock()

    async def connect(self, url: URL, protocol: asyncio.Protocol) -> None:
        """Connect a protocol to a URL's host.

        Raises:
            NotConnected: there is no connection; the message names the host and says why.
        """
        host, port = url.raw_host, url.port
        if host is None or port is None or url.scheme not in ("http", "https"):
            raise NotConnected(f"{url.scheme!r} is neither http nor https, or no host is named", is_refused_here=True)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                if self._unix_path is not None:
                    await self._loop.create_unix_connection(lambda: protocol, self._unix_path)
                elif (path := path_of(host)) is not None:
                    await self._connect_named(path, protocol)
                else:
                    await self._connect_tcp(host, port, protocol, is_secure=url.scheme == "https")
        except NotConnected:
            raise
        except TimeoutError as error:
            raise NotConnected(f"no connection within {CONNECT_SECONDS:g} s") from error
        except OSError as error:
            self._known.pop((host, port), None)
            where = self._unix_path or path_of(host) or f"{url.host_subcomponent}:{port}"
            raise NotConnected(_problem(error, where), is_refused_here=isinstance(error, ssl.SSLError)) from error

    async def _connect_named(self, path: str, protocol: asyncio.Protocol) -> None:
        descriptor = open_socket_file(path)
        try:
            await self._loop.create_unix_connection(lambda: protocol, f"/proc/self/fd/{descriptor}")
        finally:
            os.close(descriptor)

    async def _connect_tcp(self, host: str, port: int, protocol: asyncio.Protocol, *, is_secure: bool) -> None:
        addresses = await self._addresses(host, port)
        opened = await start_connection(
            addresses, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS, loop=self._loop, socket_factory=_probed_socket
        )
        secured: dict[str, Any] = {"ssl": self._ssl, "server_hostname": host.rstrip(".")} if is_secure else {}
        try:
            await self._loop.create_connection(lambda: protocol, sock=opened, **secured)
        except BaseException:
            opened.close()
            raise

    async def _addresses(self, host: str, port: int) -> list[Address]:
        """The addresses of a name; each time another one comes first, as servers behind one name share the work."""
        async with self._lookup:
            known = self._known.get((host, port))
            if known is None or self._loop.time() > known[0] + _ADDRESS_SECONDS:
                try:
                    found: list[Address] = [*await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
                except (socket.gaierror, UnicodeError) as error:
                    raise NotConnected(f"the host {host!r} has no address") from error
                known = self._known[host, port] = self._loop.time(), found
            addresses = known[1]
            given = addresses.copy()
            addresses.append(addresses.pop(0))
            return given

    @cached_property
    def _ssl(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        return context


def _problem(error: OSError, where: str) -> str:
    if error.errno == errno.ECONNREFUSED:
        return f"nothing listens at {where} (connection refused)"
    if "WRONG_VERSION_NUMBER" in str(error):
        return f"{where} does not speak TLS; try http:// instead of https://"
    code = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
    return f"no connection to {where}: {os.strerror(code) if code > 0 else str(error) or type(error).__name__}"


def _probed_socket(address: Address) -> socket.socket:
    """A socket with TCP keepalive.

    An answer may take ten minutes without a byte. Without keepalive, routers drop such idle connections, and the loss
    of the server is noticed only at the request's timeout.
    """
    family, kind, protocol = address[:3]
    # The protocol named, asyncio sends what is written at once.
    made = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _PROBES.items():
        if (option := getattr(socket, name, None)) is not None:  # not all systems have all of them
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made
