"""An HTTP proxy on the hub's side of a sandbox's loopback port, which reaches the hosts of an allow-list alone.

The sandbox has no network: its only way out is a port that the hub forwards to this proxy. Names are resolved here,
once, and the address that was checked is the one that is connected to, so that no answer of a name server can bring in
a private one.
"""

import ipaddress
import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketStream

from rollouthub.sandbox import ByteStream, Sandbox

PROXY_PORT = 3128
"""The port on the sandbox's loopback."""
_MOST_HEAD = 64 << 10
_CONNECT_SECONDS = 20.0
_HOP_HEADERS = frozenset(
    {"connection", "host", "keep-alive", "proxy-authorization", "proxy-connection", "te", "upgrade"}
)
_TUNNELS = tuple(map(ipaddress.ip_network, ("64:ff9b::/96", "2002::/16", "2001::/32")))
"""Networks whose addresses stand for others, private ones included."""
_BROKE = (OSError, anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError)
logger = logging.getLogger(__name__)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class _Refused(Exception):
    """A request is not carried out; the arguments are an HTTP status and the reason."""


class AllowList:
    """Which hosts may be reached: names, `*.name` for all below a name, addresses, and networks of addresses."""

    def __init__(self, hosts: Sequence[str], private_hosts: Sequence[str] = ()) -> None:
        """`private_hosts` are the addresses or networks that are not public and may be reached all the same.

        Raises:
            ValueError: an entry is none of these.
        """
        self._names: set[str] = set()
        self._suffixes: list[str] = []
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for host in hosts:
            self._add(host.strip().lower().rstrip("."))
        self._private = [ipaddress.ip_network(host) for host in private_hosts]

    def _add(self, host: str) -> None:
        try:
            self._networks.append(ipaddress.ip_network(host))
            return
        except ValueError:
            pass
        labels = host.removeprefix("*.").split(".")
        if not all(label and label.replace("-", "a").isalnum() and label.isascii() for label in labels):
            raise ValueError(f"{host!r} is no host name, '*.' and a name, address or network of addresses")
        if host.startswith("*."):
            self._suffixes.append(host[1:])
        else:
            self._names.add(host)

    def _names_host(self, host: str) -> bool:
        return host in self._names or any(host.endswith(suffix) for suffix in self._suffixes)

    def _is_open(self, address: Address) -> bool:
        """Whether an address may be connected to at all: public ones, and what the user named."""
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        real = mapped or address
        if real.is_global and not real.is_multicast and not any(real in each for each in _TUNNELS):
            return True
        return any(real in network for network in self._private)

    async def addresses(self, host: str, port: int) -> list[str]:
        """The addresses of an allowed host.

        Raises:
            _Refused: the host is not allowed, has no address, or only private ones.
        """
        name = host.lower().rstrip(".")
        try:
            literal = ipaddress.ip_address(name)
        except ValueError:
            literal = None
        is_named = self._names_host(name) if literal is None else any(literal in each for each in self._networks)
        if not is_named:
            raise _Refused(403, f"{name} is not among the hosts that this task may reach")
        try:
            found = await anyio.getaddrinfo(name, port)
        except (OSError, UnicodeError) as error:
            raise _Refused(502, f"{name} has no address: {error}") from error
        known = dict.fromkeys(entry[4][0] for entry in found)
        open_ones = [text for text in known if self._is_open(ipaddress.ip_address(text.partition("%")[0]))]
        if not open_ones:
            raise _Refused(403, f"{name} has no public address")
        return open_ones


async def offer(sandbox: Sandbox, allowed: AllowList) -> None:
    """Offer the proxy on `PROXY_PORT` of the sandbox's loopback, for as long as the sandbox lives.

    Raises:
        SandboxFileError: the port is taken.
        NotOffered: the sandbox's provider cannot forward ports.
    """

    async def connect() -> ByteStream:
        return _Proxied(allowed)

    await sandbox.forward(PROXY_PORT, connect)


def proxy_variables(names: Sequence[str]) -> dict[str, str]:
    """The variables by which programs find the proxy; `names` are reached without it."""
    address, direct = f"http://127.0.0.1:{PROXY_PORT}", ",".join(("localhost", "127.0.0.1", "::1", *names))
    ways = {"http_proxy": address, "https_proxy": address, "all_proxy": address, "no_proxy": direct}
    # curl reads http_proxy in small letters alone; others read large ones.
    return ways | {name.upper(): value for name, value in ways.items()} | {"NODE_USE_ENV_PROXY": "1"}


class _Proxied:
    """One connection of a program in a sandbox: its first request decides where it leads."""

    def __init__(self, allowed: AllowList) -> None:
        self._allowed = allowed
        self._head = bytearray()
        self._answer = b""
        self._upstream: SocketStream | None = None
        self._decided = anyio.Event()

    async def send(self, data: bytes) -> None:
        """Take bytes of the program."""
        if self._decided.is_set():
            if self._upstream is not None:
                await self._upstream.send(data)
            return
        self._head += data
        end = self._head.find(b"\r\n\r\n")
        if end < 0 and len(self._head) <= _MOST_HEAD:
            return
        try:
            if end < 0 or end > _MOST_HEAD:
                raise _Refused(431, "the request's head is too long")
            await self._begin(bytes(self._head[:end]), bytes(self._head[end + 4 :]))
        except _Refused as refusal:
            status, why = refusal.args
            logger.info("a request of a sandbox was refused: %s", why)
            body = f"{why}\n".encode()
            head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}"
            self._answer = head.encode() + b"\r\nConnection: close\r\n\r\n" + body
        finally:
            self._head.clear()
            self._decided.set()

    async def _begin(self, head: bytes, rest: bytes) -> None:
        request, *lines = head.decode("latin-1").split("\r\n")
        method, _, target = request.partition(" ")
        target, _, version = target.rpartition(" ")
        if not version.startswith("HTTP/1."):
            raise _Refused(400, "this is no HTTP/1 request for a proxy")
        try:
            parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
            host, port = parts.hostname, parts.port
        except ValueError:
            host, port, parts = None, None, urlsplit("")
        if not host or (method != "CONNECT" and parts.scheme != "http"):
            raise _Refused(400, "ask for `CONNECT host:port` or an http:// address")
        port = port or (443 if method == "CONNECT" else 80)
        upstream = self._upstream = await self._dial(host, port)
        if method == "CONNECT":
            self._answer = b"HTTP/1.1 200 Connection established\r\n\r\n"
        else:
            rest = _direct(method, parts.path, parts.query, f"{host}:{port}", lines) + rest
        if rest:
            await upstream.send(rest)

    async def _dial(self, host: str, port: int) -> SocketStream:
        problem: Exception | None = None
        for address in await self._allowed.addresses(host, port):
            try:
                with anyio.fail_after(_CONNECT_SECONDS):
                    return await anyio.connect_tcp(address, port)
            except (OSError, TimeoutError) as error:
                problem = error
        raise _Refused(502, f"{host}:{port} cannot be connected to: {problem}")

    async def receive(self) -> bytes:
        """The next bytes for the program; empty at the end."""
        await self._decided.wait()
        if self._answer:
            answer, self._answer = self._answer, b""
            return answer
        if self._upstream is None:
            return b""
        try:
            return await self._upstream.receive()
        except _BROKE:
            return b""

    async def send_eof(self) -> None:
        """Hand on that the program writes no more."""
        if self._upstream is not None:
            await self._upstream.send_eof()
        self._decided.set()

    async def aclose(self) -> None:
        """Close the connection on both sides."""
        self._decided.set()
        if self._upstream is not None:
            await self._upstream.aclose()


def _direct(method: str, path: str, query: str, host: str, lines: Sequence[str]) -> bytes:
    """The head of a request as its server gets it: for one answer, and for the host that was allowed."""
    kept = [line for line in lines if line.partition(":")[0].strip().lower() not in _HOP_HEADERS]
    target = (path or "/") + (f"?{query}" if query else "")
    own = [f"{method} {target} HTTP/1.1", f"Host: {host.removesuffix(':80')}", "Connection: close"]
    return "\r\n".join([*own, *kept, "", ""]).encode("latin-1")
