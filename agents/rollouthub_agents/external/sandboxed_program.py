"""`sandbox=docker` and `sandbox=process`: runs a program in a sandbox that reaches nothing but two URLs."""

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
"""Ports below the first number need a privilege to listen on; in the sandbox, the second number is added to them."""
_PATH_FIRST = 'PATH="$1${PATH:+:$PATH}"; export PATH; shift; exec "$@"'


class SandboxPlaces:
    """Opens a sandbox for each episode, all with the same specification."""

    def __init__(
        self, provider: SandboxProvider, spec: SandboxSpec, output_bytes: int, path: str = "", *, is_image: bool
    ) -> None:
        """`path` is put before PATH; with `is_image`, programs start in the image's own working folder."""
        self._provider, self._spec, self._output_bytes, self._path = provider, spec, output_bytes, path
        self._is_image = is_image

    @asynccontextmanager
    async def open(self) -> AsyncGenerator["SandboxPlace"]:
        """Open a fresh sandbox; it is removed with its content when the context ends."""
        async with self._provider.open(self._spec) as sandbox:
            workdir = sandbox.workdir if self._is_image else HOME
            yield SandboxPlace(sandbox, workdir, self._output_bytes, self._path)


class SandboxPlace:
    """One sandbox, in which one episode's program runs."""

    home = HOME

    def __init__(self, sandbox: Sandbox, workdir: str, output_bytes: int, path: str) -> None:
        self.sandbox, self.workdir = sandbox, workdir
        self._output_bytes, self._path = output_bytes, path

    async def write(self, files: Sequence[File], below: str) -> None:
        """Write files below a folder."""
        await self.sandbox.place(files, below)

    async def reach(self, address: SeatAddress) -> SeatAddress:
        """Forward ports of the sandbox to the servers of the two URLs, and return the address with URLs at these ports.

        Raises:
            SandboxFileError: a port in the sandbox cannot be opened.
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
            SandboxError: the sandbox failed.
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
    """A URL, and the host and port that it names."""

    def __init__(self, url: str) -> None:
        self._parts = urlsplit(url)
        default = 443 if self._parts.scheme == "https" else 80
        self.target = (self._parts.hostname or "localhost", self._parts.port or default)

    def at(self, port: int) -> str:
        """The same URL at a port of 127.0.0.1."""
        return urlunsplit(self._parts._replace(netloc=f"127.0.0.1:{port}"))


def _port_inside(port: int, taken: set[int]) -> int:
    inside = port if port >= _FIRST_FREE_PORT else port + _INSTEAD
    while inside in taken:
        inside += 1
    return inside


class _Caller:
    """Opens connections to one fixed host and port, whatever the program asks for."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port

    async def __call__(self) -> ByteStream:
        return _Stream(await anyio.connect_tcp(self._host, self._port))


class _Stream:
    """A TCP connection behind the interface that sandboxes forward."""

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
