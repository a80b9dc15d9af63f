"""A service as tests use it: one environment, opened in this process, and agents that call its tools."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio

from rollouthub.engine.run_request import RunRequest
from rollouthub.gateway.sessions.open_service import external_agents_plan, open_service
from rollouthub.gateway.sessions.service import HubService
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.models.credentials import Credentials

TALLY = str(Path(__file__).parent / "tally.py")


@asynccontextmanager
async def front(
    directory: Path, *, rules: ServiceRules | None = None, resume: bool = False, **request: Any
) -> AsyncGenerator[HubService]:
    """A service of the counting environment, with twenty seconds for everything."""
    plan = external_agents_plan(RunRequest.model_validate({"environments": (TALLY,), **request}))
    with anyio.fail_after(20):
        async with open_service(plan, directory, Credentials(), rules=rules or ServiceRules(), resume=resume) as made:
            yield made


async def rpc(http: aiohttp.ClientSession, url: str, method: str, **params: Any) -> tuple[int, Any]:
    """One JSON-RPC request of the sessionless era; status and JSON."""
    meta: dict[str, Any] = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Accept": "application/json"}
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    async with http.post(url, json=body, headers=headers) as response:
        return response.status, await response.json(content_type=None)


async def call(url: str, name: str, /, **arguments: Any) -> str:
    """Call a tool; the words of its result."""
    async with aiohttp.ClientSession() as http:
        status, answer = await rpc(http, url, "tools/call", name=name, arguments=arguments)
    assert status == 200, answer
    return "\n".join(block["text"] for block in answer["result"]["content"])
