"""The MCP Inspector plays: one process for each request, in both eras; `.ci/foreign.sh` installs it."""

import json
from typing import Any

import pytest

from rollouthub.hosting.control_wire import OpenedEpisode
from rollouthub.messages import Message
from rollouthub_registry.check.thorough.inspector import ERAS, TOOL_ERROR, Era, Inspector, inspector_outcomes
from rollouthub_registry.check.thorough.node_programs import ProgramResult
from rollouthub_servers.arithmetic import Arithmetic
from rollouthub_servers.customer_service import CustomerService
from tests.conformance.installed import node_tools
from tests.conformance.world import SuiteWorld
from tests.hosting.server.wire_client import WireClient, served

pytestmark = pytest.mark.live

SECONDS = 240.0


@pytest.mark.parametrize("era", ERAS)
async def test_the_inspector_finishes_a_sum(era: Era) -> None:
    tools = await node_tools()
    async with served(Arithmetic, seconds=SECONDS, size=1) as wire:
        episode = await _open(wire)
        inspector = Inspector(tools, episode.seats[0].url, era)
        prompt = _words(await inspector.call("get_task", {}))
        expression = prompt[len("What is ") : prompt.index("?")]
        answer = _words(await inspector.call("calculate", {"expression": expression}))
        assert _words(await inspector.call("submit", {"answer": f"It is {answer}."})) == "Submitted."
        assert (await inspector.call("calculate", {"expression": "1+1"})).code == TOOL_ERROR
        assert (await _verdict(wire, episode))["reward"] == 1.0


@pytest.mark.parametrize("era", ERAS)
async def test_the_inspector_finishes_a_case_of_many_steps(era: Era) -> None:
    tools = await node_tools()
    async with served(CustomerService, seconds=SECONDS, size=1, kind="simple") as wire:
        episode = await _open(wire)
        inspector = Inspector(tools, episode.seats[0].url, era)
        reference = await wire.control("GET", f"/v1/episodes/{episode.id}/reference")
        script = [Message.model_validate(message) for message in reference.json["messages"]]
        for said in script:
            for request in said.tool_requests:
                assert (await inspector.call(request.name, json.loads(request.arguments))).code == 0
            if not said.tool_requests:
                assert (await inspector.call("reply", {"text": said.text})).code == 0
        assert (await _verdict(wire, episode))["reward"] == 1.0


async def test_every_schema_of_a_shipped_environment_is_portable() -> None:
    tools = await node_tools()
    for environment in (Arithmetic, CustomerService):
        async with served(environment, seconds=SECONDS, size=1) as wire:
            outcomes = await inspector_outcomes(tools, (await _open(wire)).seats[0].url)
        assert [(outcome.name, outcome.state) for outcome in outcomes if outcome.state != "held"] == []
        assert len(outcomes) == 2 * len(ERAS)


async def test_what_the_inspector_finds_is_told() -> None:
    tools = await node_tools()
    (listing, call) = await inspector_outcomes(tools, "http://127.0.0.1:1/mcp", eras=["legacy"])
    assert (listing.state, call.state) == ("broke", "broke")
    assert listing.says == "the server cannot be reached"


@pytest.mark.parametrize("era", ERAS)
async def test_a_tool_error_is_the_tools_and_not_the_inspectors(era: Era) -> None:
    tools = await node_tools()
    async with served(SuiteWorld, seconds=SECONDS) as wire:
        ended = await Inspector(tools, (await wire.seat()).url, era).call("test_error_handling", {})
    assert (ended.code, json.loads(ended.stdout)["isError"]) == (TOOL_ERROR, True)


def _words(ended: ProgramResult) -> str:
    assert ended.code == 0, ended.stderr
    return "\n".join(block["text"] for block in json.loads(ended.stdout)["content"])


async def _open(wire: WireClient) -> OpenedEpisode:
    card = (await wire.control("GET", "/v1/tasks?split=test")).json["cards"][0]["public"]
    return await wire.open(task={"id": card["id"], "split": "test"})


async def _verdict(wire: WireClient, episode: OpenedEpisode) -> dict[str, Any]:
    verified = await wire.control("POST", f"/v1/episodes/{episode.id}/verify", {"unless_broken": True})
    assert verified.status == 200, verified
    return verified.json["score"]
