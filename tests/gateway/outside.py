"""Agents from outside, as tests play them: a coroutine that is given a seat's two URLs, and the gateway it meets."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import anyio

from rollouthub import BadRow, Limits, Rollout, Sampling
from rollouthub.engine.attempt import Attempt
from rollouthub.engine.sample import Sample, SampleContext
from rollouthub.gateway.gateway import Gateway, open_gateway
from rollouthub.generation import Model
from rollouthub.hosting import InProcessHost
from rollouthub.limits import Deadlines
from rollouthub.protocols import EnvironmentHost, Seat, SeatAddress
from rollouthub.rollout import AgentRef, EnvironmentRef, Stop, TaskRef
from tests.engine.conftest import Counter, CounterConfig, Reply, TellModel

Play = Callable[[SeatAddress], Awaitable[object]]


class Visitor:
    """An agent from outside."""

    name, version = "visitor", "1"

    def __init__(self, play: Play) -> None:
        self.config: dict[str, Any] = {}
        self._play = play

    async def play(self, seat: Seat) -> Stop:
        """It has no seat inside."""
        raise AssertionError

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop:
        """Do what the test says."""
        await self._play(address)
        return Stop.FINISHED


@dataclass
class GatewayHarness:
    """A gateway, and HTTP to talk to it."""

    gateway: Gateway
    http: aiohttp.ClientSession
    model: TellModel | None = None
    split: str | None = None
    host: EnvironmentHost = field(
        default_factory=lambda: InProcessHost("counter", Counter, CounterConfig.model_validate({}))
    )

    async def play(
        self,
        play: Play,
        *,
        limits: Limits | None = None,
        deadlines: Deadlines | None = None,
        model: Model | None = None,
        seconds: float = 30,
    ) -> Rollout:
        """Play the first task of the environment from outside; its record."""
        card = await anext(aiter(self.host.tasks(self.split or self.host.info.splits[0], 0)))
        assert not isinstance(card, BadRow)
        agent = Visitor(play)
        info = self.host.info
        context = SampleContext(
            run_id="run",
            host=self.host,
            environment=EnvironmentRef(name=info.name, version=info.version, digest=info.digest),
            agent=agent,
            agent_ref=AgentRef(name=agent.name, version=agent.version),
            model=model or self.model,
            sampling=Sampling(),
            limits=limits or Limits(),
            deadlines=deadlines or Deadlines(),
            gateway=self.gateway,
        )
        task = TaskRef(split=card.split, id=card.public.id, digest=card.digest)
        with anyio.fail_after(seconds):
            return await Attempt(Sample(context, card, task, "group", "group-0", 0, 1, None), 0, 0.0, _unseen).play()

    async def chat(self, address: SeatAddress, said: str | list[dict[str, Any]] = "count", **more: Any) -> Any:
        """Ask the model API for a chat completion; status and JSON."""
        messages = [{"role": "user", "content": said}] if isinstance(said, str) else said
        url, headers = f"{address.llm_url}/chat/completions", more.pop("headers", {})
        body = {"model": "any", "messages": messages, **more}
        async with self.http.post(url, json=body, headers=headers) as response:
            return response.status, await response.json()

    async def rpc(self, url: str, method: str, **params: Any) -> Any:
        """One JSON-RPC request of the sessionless era; status and JSON."""
        meta: dict[str, Any] = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Accept": "application/json"}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
        async with self.http.post(url, json=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)

    async def call(self, address: SeatAddress, name: str, /, **arguments: Any) -> Any:
        """Call a tool; its result."""
        _, answer = await self.rpc(address.agent_url, "tools/call", name=name, arguments=arguments)
        return answer["result"]


@asynccontextmanager
async def harness(replies: Sequence[Reply] = (), host: EnvironmentHost | None = None) -> AsyncGenerator[GatewayHarness]:
    """A gateway for tests; `replies` are what the run's model says."""
    async with open_gateway() as gateway, aiohttp.ClientSession() as http:
        made = GatewayHarness(gateway, http, TellModel(replies) if replies else None)
        if host is not None:
            made.host = host
        yield made


def words(result: dict[str, Any]) -> str:
    """A tool result's text."""
    return "\n".join(block["text"] for block in result["content"])


def _unseen(attempt: Attempt) -> None:
    """Nobody watches."""
