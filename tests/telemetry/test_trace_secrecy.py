"""Attacks by way of traces: no agent, tool or sandbox learns of a trace, joins one, or has its words in one."""

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from opentelemetry import trace
from pydantic import JsonValue

from rollouthub import (
    Environment,
    EnvironmentConfig,
    Message,
    Public,
    Score,
    Seat,
    Secret,
    Stop,
    Submission,
    Task,
    tool,
)
from rollouthub.errors import VerifierError
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.launch import TOKEN_VARIABLE
from rollouthub.hosting.server.serve import Service, serving_host
from rollouthub.messages import ToolRequest, assistant
from rollouthub.protocols import SeatAddress
from rollouthub.tracing import TRACEPARENT
from tests.models.servers import Script, say, serving
from tests.ports import free_port
from tests.telemetry.collectors import Collector, play

CANARY = "canary-7f3a"
EVIL = f"00-{'e' * 32}-{'f' * 16}-01"


def visible() -> list[str]:
    """What code that runs now could learn of a trace."""
    span = trace.get_current_span().get_span_context()
    known = [TRACEPARENT.get(), EVIL if span.is_valid else None]
    return [*filter(None, known), *(name for name in os.environ if "TRACEPARENT" in name.upper())]


class Prying(Environment[EnvironmentConfig]):
    """A world whose tool looks around, and whose every word is a canary."""

    seen: list[list[str]] = []

    @classmethod
    def tasks(cls, config: Any, split: str, seed: int) -> Iterable[Task[Public, Secret]]:
        yield Task(Public(id=f"{CANARY}-task", prompt=f"{CANARY} prompt"), Secret(answer=f"{CANARY} answer"))

    @tool
    async def look(self, at: str) -> str:
        """Look around."""
        self.seen.append(visible())
        return f"{CANARY} result"

    async def verify(self, submission: Submission) -> Score:
        if "break" in submission.final:
            raise VerifierError(f"{CANARY} verifier")
        return Score(reward=1.0, feedback=f"{CANARY} feedback")


class Curious:
    """Looks around itself, calls a tool there is and one it made up, and says its word."""

    name, version = "curious", "1"
    config: dict[str, JsonValue] = {}

    def __init__(self, word: str = "bye") -> None:
        self.seen: list[list[str]] = []
        self._word = word

    async def play(self, seat: Seat) -> Stop:
        """Look, call, speak."""
        self.seen.append(visible())
        arguments = f'{{"at": "{CANARY}"}}'
        requests = [ToolRequest(id="1", name="look", arguments=arguments)]
        requests.append(ToolRequest(id=CANARY, name=f"{CANARY}_tool", arguments=arguments))
        asked = assistant(CANARY, *requests)
        seat.say(seat.messages, asked)
        answers = await seat.call_tools(requests)
        said = await seat.generate([*seat.messages, asked, *answers])
        seat.say([*seat.messages, asked, *answers, said, Message(role="user", content="?")], assistant(self._word))
        return Stop.FINISHED


@pytest.fixture(autouse=True)
def fresh() -> None:
    Prying.seen.clear()


@asynccontextmanager
async def prying(url: str, public_url: str | None = None, port: int = 0) -> AsyncGenerator[dict[str, Any]]:
    """The world, served with traces; what a run needs to play it."""
    service = Service("prying", control_token="key", traces=url, public_url=public_url, agent_port=port)
    async with serving_host(InProcessHost("prying", Prying), service) as serving:
        yield {"environments": (serving.ready.control_url,), "environ": {TOKEN_VARIABLE: "key"}}


@pytest.mark.parametrize("word", ["bye", "break"])
async def test_nothing_that_was_said_is_in_a_span(tmp_path: Path, word: str) -> None:
    collector, script = Collector(), Script(say(f"{CANARY} said"))
    async with collector.serve() as url, script.serve() as base, prying(url) as world:
        asked: dict[str, Any] = {"model": "hosted_vllm/served", "base_url": base, "traces": url, **world}
        (rollout,) = await play(tmp_path / "run", player=Curious(word), retries={"verifier": 0}, **asked)
    assert (rollout.score is None) == (word == "break")
    assert len(collector.named("execute_tool look")) == 2
    assert len(collector.named("execute_tool unknown")) >= 1
    assert CANARY.encode() not in collector.raw


async def test_an_agent_and_its_tools_cannot_tell_that_they_are_traced(tmp_path: Path) -> None:
    collector, agent = Collector(), Curious()
    file = tmp_path / "prying.py"
    file.write_text(f"from {__name__} import Prying\n\nclass Here(Prying):\n    '''Here.'''\n")
    async with collector.serve() as url:
        await play(tmp_path / "run", player=agent, model="mock/say?text=ok", traces=url, environments=(str(file),))
    assert (agent.seen, Prying.seen) == ([[]], [[]])
    assert len(collector.spans) > 5


async def test_nothing_of_a_trace_is_on_the_agent_plane(tmp_path: Path) -> None:
    collector, heard, port = Collector(), list[str](), free_port()

    async def forward(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        heard.extend(f"{key}: {value}" for key, value in request.headers.items())
        heard.append(body.decode())
        headers = {key: value for key, value in request.headers.items() if key.lower() != "host"}
        url = f"http://127.0.0.1:{port}{request.path}"
        async with aiohttp.ClientSession() as session, session.post(url, data=body, headers=headers) as response:
            heard.extend(f"{key}: {value}" for key, value in response.headers.items())
            heard.append((await response.read()).decode())
            return web.Response(status=response.status, body=await response.read(), headers=response.headers)

    app = web.Application()
    app.router.add_post("/{path:.*}", forward)
    async with collector.serve() as url, serving(app) as proxy, prying(url, proxy.removesuffix("/v1"), port) as world:
        await play(tmp_path / "run", player=Curious(), model="mock/say?text=ok", traces=url, **world)
    traces = {span.trace_id.hex() for span in collector.spans}
    assert len(traces) == 1
    assert Prying.seen == [[]]
    assert [line for line in heard if "trace" in line.lower() or any(each in line for each in traces)] == []
    assert any("tools/call" in line for line in heard)


class Outsider:
    """An agent outside, which names traces of its own and keeps everything it is answered."""

    name, version = "outsider", "1"
    config: dict[str, JsonValue] = {}
    needs_model = True

    def __init__(self) -> None:
        self.answered: list[str] = []

    async def play(self, seat: Seat) -> Stop:
        """Not this way."""
        raise NotImplementedError

    async def play_exposed(self, seat: Seat, address: SeatAddress) -> Stop:
        """One call of the model, one of a tool."""
        chat = {"model": "any", "messages": [{"role": "user", "content": "hi"}]}
        call = {"name": "look", "arguments": {"at": "me"}, "_meta": {"traceparent": EVIL}}
        spoken = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _GREETING}
        headers = {"traceparent": EVIL, "Authorization": f"Bearer {address.api_key}"}
        headers["Accept"] = "application/json, text/event-stream"
        called = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call}
        async with aiohttp.ClientSession(headers=headers) as session:
            await self._post(session, f"{address.llm_url}/chat/completions", chat)
            await self._post(session, address.agent_url, spoken)
            await self._post(session, address.agent_url, called)
        return Stop.FINISHED

    async def _post(self, session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> None:
        async with session.post(url, json=body) as response:
            assert response.status == 200, await response.text()
            self.answered += [str(response.headers), await response.text()]
            if found := response.headers.get("mcp-session-id"):
                session.headers["mcp-session-id"] = found


_GREETING = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "outsider", "version": "1"}}


async def test_an_agent_outside_neither_learns_its_trace_nor_joins_another(tmp_path: Path) -> None:
    collector, script, agent = Collector(), Script(say("hi")), Outsider()
    async with collector.serve() as url, script.serve() as base, prying(url) as world:
        asked: dict[str, Any] = {"model": "hosted_vllm/served", "base_url": base, "traces": url, **world}
        await play(tmp_path / "run", player=agent, **asked)
    (root,) = collector.named("rollout prying")
    assert {span.trace_id for span in collector.spans} == {root.trace_id}
    assert EVIL not in script.headers[0]["traceparent"]
    assert root.trace_id.hex() in script.headers[0]["traceparent"]
    said = "\n".join(agent.answered)
    assert "look" in [span.name.rpartition(" ")[2] for span in collector.spans]
    assert root.trace_id.hex() not in said
    assert "traceparent" not in said.lower()
