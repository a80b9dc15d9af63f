"""Ways to reach one seat: in process, and over the wire with clients of several SDKs and both protocol eras.

A driver says what its client saw as plain JSON, so that all of them can be compared.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Literal, Protocol

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from rollouthub.protocols import AgentPlane

HERE = Path(__file__).parent
FOREIGN = Path(__file__).parents[2] / ".ci" / "foreign"
LONGEST_LINE = 2**24


class Driver(Protocol):
    """One client at one seat."""

    instructions: str | None
    """The task, as the server tells it at the start; None where the client has no such thing."""

    async def tools(self) -> list[dict[str, Any]]:
        """What `tools/list` gives: name, description and schema of each."""
        ...

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """A tool's result: its content blocks, whether it is an error, structured content."""
        ...

    async def call_briefly(self, name: str, arguments: dict[str, Any], seconds: float) -> None:
        """Call and leave after so long, without the answer."""
        ...


Opener = Callable[[AgentPlane, str], AbstractAsyncContextManager[Driver]]


def plain_result(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what carries no meaning: absent fields, protocol marks."""
    blocks = [{key: value for key, value in block.items() if value is not None} for block in result["content"]]
    for block in blocks:
        block.pop("_meta", None)
    structured = result.get("structuredContent")
    return {
        "content": blocks,
        "isError": bool(result.get("isError", False)),
        **({} if structured is None else {"structured": structured}),
    }


def plain_tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Tools as name, description and schema."""
    return [
        {"name": tool["name"], "description": tool.get("description"), "schema": tool["inputSchema"]} for tool in tools
    ]


class DirectDriver:
    """The seat itself."""

    def __init__(self, plane: AgentPlane) -> None:
        self._plane = plane
        self.instructions: str | None = None

    async def tools(self) -> list[dict[str, Any]]:
        tools = self._plane.tools
        return plain_tools([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools])

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self._plane.call_tool(name, arguments)
        return plain_result(result.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def call_briefly(self, name: str, arguments: dict[str, Any], seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._plane.call_tool(name, arguments)


class SdkDriver:
    """The official SDK's client, 2.x."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.instructions: str | None = client.instructions

    async def tools(self) -> list[dict[str, Any]]:
        listed = await self._client.list_tools()
        return plain_tools([tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools])

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        result = await self._client.call_tool(name, arguments)
        return plain_result(result.model_dump(mode="json", by_alias=True, exclude_none=True))

    async def call_briefly(self, name: str, arguments: dict[str, Any], seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._client.call_tool(name, arguments)


class LineDriver:
    """A client program that is told what to do by JSON lines."""

    def __init__(self, process: anyio.abc.Process, lines: BufferedByteReceiveStream, greeting: dict[str, Any]) -> None:
        self._process, self._lines = process, lines
        self.instructions: str | None = greeting.get("instructions")

    async def _ask(self, **request: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        await self._process.stdin.send(json.dumps(request).encode() + b"\n")
        return json.loads(await self._lines.receive_until(b"\n", LONGEST_LINE))

    async def tools(self) -> list[dict[str, Any]]:
        return plain_tools((await self._ask(do="list"))["tools"])

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        answer = await self._ask(do="call", name=name, arguments=arguments)
        assert "result" in answer, answer
        return plain_result(answer["result"])

    async def call_briefly(self, name: str, arguments: dict[str, Any], seconds: float) -> None:
        # Neither SDK tells the server that it gave up on a call: only a client that is gone has left.
        with anyio.move_on_after(seconds):
            await self._ask(do="call", name=name, arguments=arguments)
        self._process.kill()


@asynccontextmanager
async def direct(plane: AgentPlane, url: str) -> AsyncGenerator[Driver]:
    """No client at all."""
    yield DirectDriver(plane)


def sdk(mode: Literal["auto", "legacy"]) -> Opener:
    """The 2.x SDK over HTTP, in one of its modes."""

    @asynccontextmanager
    async def open_driver(plane: AgentPlane, url: str) -> AsyncGenerator[Driver]:
        from mcp import Client

        try:
            async with Client(url, mode=mode) as client:
                yield SdkDriver(client)
        except* (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass  # the SDK's client trips over the answer to a cancelled call that comes while it closes

    return open_driver


@asynccontextmanager
async def stdio(plane: AgentPlane, url: str) -> AsyncGenerator[Driver]:
    """The 2.x SDK over stdio, through the hub's bridge."""
    from mcp import Client, StdioServerParameters

    code = "from rollouthub.cli.main import main; main()"
    server = StdioServerParameters(
        command=sys.executable, args=["-c", code, "stdio"], env={**os.environ, "ROLLOUTHUB_AGENT_URL": url}
    )
    async with Client(server) as client:
        yield SdkDriver(client)


def program(*command: str | Path) -> Opener:
    """A client program of another SDK."""

    @asynccontextmanager
    async def open_driver(plane: AgentPlane, url: str) -> AsyncGenerator[Driver]:
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed; run .ci/foreign.sh")
        async with await anyio.open_process(
            [url if part == "URL" else str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,
        ) as process:
            try:
                assert process.stdout is not None
                lines = BufferedByteReceiveStream(process.stdout)
                yield LineDriver(process, lines, json.loads(await lines.receive_until(b"\n", LONGEST_LINE)))
            finally:
                with suppress(ProcessLookupError):
                    process.kill()

    return open_driver


OURS: dict[str, Opener] = {
    "in process": direct,
    "http auto": sdk("auto"),
    "http legacy": sdk("legacy"),
    "stdio": stdio,
}
OTHERS: dict[str, Opener] = {
    "sdk 1.x": program(FOREIGN / "venv" / "bin" / "python", HERE / "clients" / "mcp1_client.py", "URL"),
    "typescript": program("node", HERE / "clients" / "typescript_client.mjs", "URL", FOREIGN),
}
