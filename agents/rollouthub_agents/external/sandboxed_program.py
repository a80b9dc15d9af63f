"""`sandbox=docker` and `sandbox=process`: a program in a sandbox without a network, two URLs its only way out."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from urllib.parse import urlsplit, urlunsplit

import anyio
from anyio.abc import SocketStream

from rollouthub.protocols import SeatAddress
from rollouthub.sandbox import MOST_SECONDS, ByteStream, File, Finished, Sandbox, SandboxProvider, SandboxSpec

HOME = "/home/agent"
_FIRST_FREE_PORT, _INSTEAD = 1024, 20_000
"""Ports below take a privilege to listen on; inside, theirs is higher by so much."""
_PATH_FIRST = 'PATH="$1${PATH:+:$PATH}"; export PATH; shift; exec "$@"'


class SandboxPlaces:
    """Sandboxes of one provider, all alike."""

    def __init__(
        self, provider: SandboxProvider, spec: SandboxSpec, output_bytes: int, path: str = "", *, is_image: bool
    ) -> None:
        """`path` is searched for programs first; in an image of the user's programs start where it says."""
        self._provider, self._spec, self._output_bytes, self._path = provider, spec, output_bytes, path
        self._is_image = is_image

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["SandboxPlace"]:
        """A fresh sandbox; gone with all that is in it when the context ends."""
        async with self._provider.open(self._spec) as sandbox:
            workdir = sandbox.workdir if self._is_image else HOME
            yield SandboxPlace(sandbox, workdir, self._output_bytes, self._path)


class SandboxPlace:
    """One sandbox."""

    home = HOME

    def __init__(self, sandbox: Sandbox, workdir: str, output_bytes: int, path: str) -> None:
        self.sandbox, self.workdir = sandbox, workdir
        self._output_bytes, self._path = output_bytes, path

    async def write(self, files: Sequence[File], below: str) -> None:
        """Put files below a folder."""
        await self.sandbox.place(files, below)

    async def reach(self, address: SeatAddress) -> SeatAddress:
        """Carry connections to where the URLs lead, and say how to call that from inside.

        Raises:
            SandboxFileError: a port inside cannot be had.
        """
        ports: dict[tuple[str, int], int] = {}
        urls = [_Inside(url) for url in (address.agent_url, address.llm_url) if url is not None]
        for url in urls:
            if url.target not in ports:
                ports[url.target] = _port_inside(url.target[1], set(ports.values()))
                await self.sandbox.forward(ports[url.target], _Caller(*url.target))
        inside = [url.at(ports[url.target]) for url in urls]
        return replace(address, agent_url=inside[0], llm_url=None if address.llm_url is None else inside[1])

    async def run(self, command: Sequence[str], environment: Mapping[str, str], seconds: float | None) -> Finished:
        """Run a program to its end.

        Raises:
            CommandNotStarted: there is no such program.
            SandboxError: the sandbox broke.
        """
        if self._path:
            command = ["/bin/sh", "-c", _PATH_FIRST, "sh", self._path, *command]
        return await self.sandbox.exec(
            command,
            cwd=self.workdir,
            environment=environment,
            timeout_seconds=MOST_SECONDS if seconds is None else seconds,
            output_bytes=self._output_bytes,
            keeps_background=False,
        )


class _Inside:
    """A URL, and where it leads from the hub."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        default = 443 if self._parts.scheme == "https" else 80
        self.target = (self._parts.hostname or "localhost", self._parts.port or default)

    def at(self, port: int) -> str:
        """The same URL at a loopback port."""
        return urlunsplit(self._parts._replace(netloc=f"127.0.0.1:{port}"))


def _port_inside(port: int, taken: set[int]) -> int:
    inside = port if port >= _FIRST_FREE_PORT else port + _INSTEAD
    while inside in taken:
        inside += 1
    return inside


class _Caller:
    """Opens connections to one place, and no other, whatever the program asks for."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def __call__(self) -> ByteStream:
        return _Stream(await anyio.connect_tcp(self._host, self._port))


class _Stream:
    """A TCP connection as sandboxes carry it."""

    def __init__(self, connection: SocketStream) -> None:
        self._connection = connection

    async def receive(self) -> bytes:
        try:
            return await self._connection.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            return b""

    async def send(self, data: bytes) -> None:
        await self._connection.send(data)

    async def send_eof(self) -> None:
        await self._connection.send_eof()

    async def aclose(self) -> None:
        await self._connection.aclose()
