"""Sandboxes of a third party: each is a supervisor on another machine, started over ssh, which also carries its stream.

`hub run … --set sandbox=acme/remote` uses it once `pip install .` has registered it. It adds no isolation on that
machine, and its record says so.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from secrets import token_hex

import anyio
import anyio.abc

from rollouthub.errors import ConfigError
from rollouthub.sandbox import CommandLimits, Sandbox, SandboxRef, SandboxSpec, Snapshot
from rollouthub_sandboxes.supervisor.client import supervise
from rollouthub_sandboxes.supervisor.sandbox import SupervisedSandbox, Surroundings

COMMAND = ["ssh", "-T", "sandboxes.example.org", "/opt/rollouthub/supervisor"]


class RemoteSandboxes:
    """Makes sandboxes on one remote machine."""

    name = "acme/remote"

    async def prepare(self, spec: SandboxSpec) -> None:
        """Refuse a spec that this provider cannot meet, instead of ignoring parts of it."""
        if spec.image is not None or spec.network != "none" or spec.profile != "hardened":
            raise ConfigError(f"the provider {self.name!r} has no images, networks or root; use --set sandbox=docker")

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AsyncGenerator[Sandbox]:
        """Start a supervisor there; when the connection ends, it kills all commands and exits."""
        await self.prepare(spec)
        if snapshot is not None:
            raise ConfigError(f"the provider {self.name!r} has no snapshots")
        process = await anyio.open_process(COMMAND, stderr=None)
        async with process, supervise(Pipes(process)) as connection:
            connection.live_for(spec.ttl_seconds)
            yield SupervisedSandbox(
                connection,
                id=f"remote-{token_hex(6)}",
                ref=SandboxRef(
                    provider=self.name,
                    walls="another machine",
                    profile=spec.profile,
                    network="host",
                    user="whom ssh logs in as",
                    resources=spec.resources,
                    limitations=("sandboxes on that machine see each other", "the network is not cut"),
                ),
                surroundings=Surroundings(
                    workdir=spec.workdir or "/tmp",
                    environment=spec.environment,
                    limits=CommandLimits(memory_bytes=spec.resources.memory_bytes),
                ),
            )


class Pipes:
    """A process's standard input and output as one byte stream."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._inward, self._outward = process.stdin, process.stdout

    async def receive(self) -> bytes:
        """The next bytes; empty at the end."""
        try:
            return await self._outward.receive()
        except anyio.EndOfStream:
            return b""

    async def send(self, data: bytes) -> None:
        """Send all of `data`."""
        await self._inward.send(data)

    async def send_eof(self) -> None:
        """Close the process's standard input."""
        await self._inward.aclose()

    async def aclose(self) -> None:
        """Close the process's standard input, which ends the supervisor."""
        await self._inward.aclose()


@asynccontextmanager
async def remote_sandboxes() -> AsyncGenerator[RemoteSandboxes]:
    """The function that the entry point names; opened once per process."""
    yield RemoteSandboxes()
