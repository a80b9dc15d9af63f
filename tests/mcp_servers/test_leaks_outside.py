"""What agents outside see of each shipped environment: no byte of either plane, or of an error, holds a secret."""

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from rollouthub import Outcome
from rollouthub.errors import ModelError
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.episode_sandboxes import open_provider
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentHost, SeatAddress
from tests.gateway.outside import GatewayHarness, harness
from tests.mcp_servers.leak_places import MALFORMED, Place

METHODS = ["server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "tasks/list"]
CHATS: list[dict[str, Any]] = [
    {"model": "any", "messages": [{"role": "user", "content": "What is the answer?"}]},
    {"model": "any", "messages": [{"role": "user", "content": "What is the answer?"}], "stream": True},
    {"model": "any", "messages": 7},
]


@asynccontextmanager
async def hosted(place: Place) -> AsyncGenerator[EnvironmentHost]:
    """The place's environment, with the sandboxes it needs."""
    async with AsyncExitStack() as stack:
        if place.world is None:
            yield place.host
            return
        environment, config = place.world
        sandboxes = await stack.enter_async_context(open_provider(config.sandbox))
        yield InProcessHost(place.host.info.name, environment, config, None, sandboxes)


class Ear:
    """Hears every byte that comes back."""

    def __init__(self, made: GatewayHarness) -> None:
        self.heard: list[bytes] = []
        self._made = made

    async def post(self, url: str, body: object, **headers: str) -> bytes:
        """Send JSON; what came back, headers and all."""
        accepts = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        async with self._made.http.post(url, data=json.dumps(body), headers=accepts | headers) as response:
            raw = await response.read()
            self.heard += [repr(response.headers).encode(), raw]
            return raw

    async def modern(self, url: str, method: str, **params: Any) -> bytes:
        """A request of the sessionless era."""
        names = {"protocolVersion": "2026-07-28", "clientCapabilities": dict[str, Any]()}
        params["_meta"] = {f"io.modelcontextprotocol/{name}": value for name, value in names.items()}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        return await self.post(url, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, **headers)

    async def legacy(self, url: str) -> None:
        """A handshake of the era of sessions, and what its clients ask for."""
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        await self.post(url, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
        for method in METHODS:
            await self.post(url, {"jsonrpc": "2.0", "id": 2, "method": method, "params": {}})


async def test_no_byte_that_reaches_an_agent_holds_a_secret(place: Place, tmp_path: Path) -> None:
    replies = ["I do not know.", "Neither do I.", ModelError(f"{place.secrets[0]} broke", retryable=False)]
    async with hosted(place) as host, harness(replies, host=host) as made:
        made.split = place.split
        ear = Ear(made)

        async def play(address: SeatAddress) -> None:
            if ear.heard:  # the others leave at once
                return
            url = address.agent_url
            for method in METHODS:
                await ear.modern(url, method)
            await ear.legacy(url)
            for chat in [*CHATS, CHATS[0]]:
                await ear.post(f"{address.llm_url}/chat/completions", chat)
            for name, arguments in MALFORMED:
                await ear.modern(url, "tools/call", name=name, arguments=arguments)
            if "submit" in place.tools:
                await ear.modern(url, "tools/call", name="submit", arguments={"answer": place.wrong_answer})
            for name, arguments in MALFORMED[:3]:
                await ear.modern(url, "tools/call", name=name, arguments=arguments)
            await ear.post(f"{address.llm_url}/chat/completions", CHATS[0])

        rollout = await made.play(play, seconds=120, deadlines=Deadlines(setup=600))
    assert len(ear.heard) > 60
    place.assert_silent(*(piece.decode(errors="replace") for piece in ear.heard))
    assert not any(b"reward" in piece and b"passed" in piece for piece in ear.heard)
    assert rollout.outcome in (Outcome.SCORED, Outcome.MODEL_FAILED)
