"""Agents from outside play over MCP: what they do is recorded, and nothing else is theirs."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import anyio
import pytest
from mcp.client import Client

from rollouthub import Limits, Outcome, Rollout, Stop, ToolRequest
from rollouthub.hosting.local.hosted_episode import CLOSED
from rollouthub.hosting.open_host import open_served
from rollouthub.messages import assistant
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import harness, words


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_environment_in_another_process_is_played_through_the_same_door(
    era: Literal["auto", "legacy"],
) -> None:
    async with open_served("arithmetic", {}) as host, harness(host=host) as made:

        async def play(address: SeatAddress) -> None:
            async with Client(address.agent_url, mode=era) as client:
                counted = await client.call_tool("calculate", {"expression": "1 + 1"})
                assert not counted.is_error
                await client.call_tool("submit", {"answer": "no number"})
                await address.over()
                late = await client.call_tool("calculate", {"expression": "1 + 1"})
                assert late.is_error

        rollout = await made.play(play)
    assert (rollout.outcome, rollout.stop, rollout.answer) == (Outcome.SCORED, Stop.SUBMITTED, "no number")
    called = [(call.name, call.result.is_error) for turn in rollout.turns for call in turn.tool_calls]
    assert called == [("calculate", False), ("submit", False)]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_an_mcp_client_finishes_an_episode_and_its_calls_are_recorded(era: Literal["auto", "legacy"]) -> None:
    async with harness() as made:

        async def play(address: SeatAddress) -> None:
            async with Client(address.agent_url, mode=era) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                assert names == ["add", "wait", "get_task", "submit"]
                for _ in range(2):
                    await client.call_tool("add", {})
                await client.call_tool("submit", {"answer": "two"})
                late = await client.call_tool("add", {})
                assert late.is_error

        rollout = await made.play(play)
    assert (rollout.outcome, rollout.stop, rollout.answer, rollout.reward) == (
        Outcome.SCORED,
        Stop.SUBMITTED,
        "two",
        1.0,
    )
    called = [(call.name, call.result.is_error) for turn in rollout.turns for call in turn.tool_calls]
    assert called == [("add", False), ("add", False), ("submit", False)]


async def test_calls_that_a_model_asked_for_lie_on_its_turn() -> None:
    asked = assistant(
        "",
        ToolRequest(id="a", name="mcp__counter__add", arguments='{"step": 2}'),
        ToolRequest(id="b", name="mcp__counter__add", arguments="{}"),
    )
    async with harness([asked, "done"]) as made:

        async def play(address: SeatAddress) -> None:
            await made.chat(address)
            await made.call(address, "add")
            await made.call(address, "add", step=2)
            await made.call(address, "add", step=7)

        rollout = await made.play(play)
    assert len(rollout.turns) == 1
    calls = [(call.id, call.arguments) for call in rollout.turns[0].tool_calls]
    assert calls == [("b", {}), ("a", {"step": 2}), ("mcp-1", {"step": 7})]


async def test_after_the_episode_its_token_opens_nothing() -> None:
    kept: list[SeatAddress] = []
    async with harness(["hello"]) as made:

        async def play(address: SeatAddress) -> None:
            kept.append(address)
            await made.call(address, "submit", answer="x")

        await made.play(play)
        assert words(await made.call(kept[0], "add")) == CLOSED
        status, _ = await made.rpc(kept[0].agent_url, "tools/list")
        assert status == 404
        status, _ = await made.chat(kept[0])
        assert status == 401


async def test_a_limit_of_turns_ends_an_agent_that_only_calls_tools() -> None:
    async with harness() as made:
        said: list[str] = []

        async def play(address: SeatAddress) -> None:
            said.extend([words(await made.call(address, "add")) for _ in range(4)])
            await address.over()

        rollout = await made.play(play, limits=Limits(max_turns=2))
    assert rollout.stop is Stop.TURN_LIMIT
    assert rollout.outcome is Outcome.SCORED
    assert said[:2] == ["1", "2"]
    assert "turn_limit" in said[2]
    assert said[2] == said[3]


async def test_arguments_too_deep_for_a_record_are_refused_in_words() -> None:
    async with harness() as made:
        said: list[str] = []

        async def play(address: SeatAddress) -> None:
            deep: list[object] = []
            for _ in range(80):
                deep = [deep]
            said.append(words(await made.call(address, "add", step=deep)))

        rollout = await made.play(play)
    assert "deeper than 64" in said[0]
    assert Rollout.model_validate_json(rollout.model_dump_json()) == rollout


@pytest.mark.parametrize("leg", ["hosted", "forwarded"])
async def test_a_line_that_is_cut_in_mid_call_ends_the_call_and_the_episode_goes_on(leg: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        host = None
        if leg == "forwarded":
            source = Path(__file__).parents[1] / "engine" / "conftest.py"
            (tmp_path / "counter.py").write_text(source.read_text())
            host = await stack.enter_async_context(open_served(str(tmp_path / "counter.py"), {}))
        made = await stack.enter_async_context(harness(host=host))

        async def play(address: SeatAddress) -> None:
            with anyio.move_on_after(2):  # long enough to come to the tool
                await made.call(address, "wait")
            assert words(await made.call(address, "add")) == "1"
            await made.call(address, "submit", answer="x")

        rollout = await made.play(play)
    assert (rollout.outcome, rollout.stop, rollout.reward) == (Outcome.SCORED, Stop.SUBMITTED, 0.5)
    assert rollout.gaps == ("tool_calls",)
    assert [call.name for turn in rollout.turns for call in turn.tool_calls] == ["add", "submit"]
