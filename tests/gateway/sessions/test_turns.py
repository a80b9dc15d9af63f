"""Agents outside at seats that take turns: any MCP client waits for its turn, and loses by its own silence."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import TextContent

from rollouthub import Outcome, Stop
from rollouthub.gateway.sessions.service import HubService
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest, SeatTicket
from rollouthub.hosting.local.hosted_episode import CLOSED
from tests.gateway.sessions.front import call, front

HAGGLE = Path(__file__).with_name("haggle.py")
NOT_YET = "It is not your turn yet"


@asynccontextmanager
async def haggling(folder: Path, rules: ServiceRules | None = None, **request: Any) -> AsyncGenerator[HubService]:
    # A call waits no longer than its deadline: the shorter, the more often a client must listen again.
    settings: dict[str, Any] = {"environments": (str(HAGGLE),), "deadlines": {"tool_call": 0.5}, **request}
    async with front(folder / "run", rules=rules, **settings) as hub:
        yield hub


async def opened(hub: HubService) -> tuple[AgentSession, dict[str, SeatTicket]]:
    session = await hub.open(EpisodeRequest())
    return session, {seat.name: seat for seat in session.ticket().seats}


async def said(client: Client, name: str, /, **arguments: Any) -> str:
    result = await client.call_tool(name, arguments)
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def heard(client: Client, answer: str = NOT_YET) -> str:
    """Listen for as long as it is another's turn, as `get_task` tells every client to."""
    while answer.startswith(NOT_YET):
        answer = await said(client, "listen")
    return answer


async def haggle(url: str, words: str, story: list[str]) -> None:
    """An MCP client that knows nothing but its URL, and what the server tells it."""
    async with Client(url) as client:
        assert "Call `listen` before anything else" in await said(client, "get_task")
        news = await heard(client)
        while news != "The conversation is over.":
            story.append(news)
            news = await heard(client, await said(client, "reply", text=words))


@pytest.mark.parametrize("where", [{}, {"served": True}], ids=["here", "served"])
async def test_two_mcp_clients_haggle_in_turn(where: dict[str, Any], tmp_path: Path) -> None:
    stories: dict[str, list[str]] = {"buyer": [], "seller": []}
    async with haggling(tmp_path, **where) as hub:
        session, seats = await opened(hub)
        async with anyio.create_task_group() as clients:
            clients.start_soon(haggle, seats["seller"].agent_url, "eight", stories["seller"])
            clients.start_soon(haggle, seats["buyer"].agent_url, "seven", stories["buyer"])
        rollout = await session.over()  # both conversations are over: nobody need end the episode
    assert stories["seller"] == ["buyer: seven", "buyer: seven"]
    assert stories["buyer"] == ["It is your turn, and nothing more was said.", "seller: eight"]
    assert (rollout.outcome, rollout.stop, rollout.reward) == (Outcome.SCORED, Stop.FINISHED, 1.0)
    assert [turn.agent for turn in rollout.turns] == ["buyer", "seller", "buyer", "seller"]
    assert rollout.turns[1].messages[-1].text == "buyer: seven"


async def test_a_seat_is_told_and_offered_nothing_of_the_others(tmp_path: Path) -> None:
    async with haggling(tmp_path) as hub:
        _, seats = await opened(hub)
        buyer, seller = seats["buyer"], seats["seller"]
        assert buyer.api_key not in (seller.api_key, seller.agent_url)
        async with Client(buyer.agent_url) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            assert tools == {"get_task", "listen", "reply"}
            told = f"{client.instructions} {await said(client, 'get_task')}"
        assert "You pay 9 at most." in told
        assert "at least" not in told


@pytest.mark.parametrize("where", [{}, {"served": True}], ids=["here", "served"])
async def test_nobody_acts_before_its_turn_or_twice_in_it(where: dict[str, Any], tmp_path: Path) -> None:
    async with haggling(tmp_path, **where) as hub:
        session, seats = await opened(hub)
        buyer, seller = seats["buyer"].agent_url, seats["seller"].agent_url
        assert "not your turn" in await call(seller, "reply", text="mine")
        assert "not your turn" in await call(seller, "cost")
        assert (await call(buyer, "reply", text="one")).startswith(NOT_YET)
        assert "not your turn" in await call(buyer, "reply", text="two")
        assert await call(seller, "listen") == "buyer: one"
        assert await call(seller, "cost") == "5"
        rollout = await session.verify()
    assert rollout.score is not None
    assert rollout.score.feedback == "buyer: one"


async def test_who_never_speaks_has_left_and_the_other_is_scored(tmp_path: Path) -> None:
    async with haggling(tmp_path, ServiceRules(turn_seconds=0.3)) as hub:
        session, seats = await opened(hub)
        async with Client(seats["buyer"].agent_url) as client:
            await client.list_tools()
            ended = await heard(client, await said(client, "reply", text="seven"))
        assert ended == "The conversation is over."
        rollout = await session.over()
        assert await call(seats["seller"].agent_url, "reply", text="late") == CLOSED
    assert (rollout.outcome, rollout.stop, rollout.faults) == (Outcome.SCORED, Stop.TIME_LIMIT, ())
    assert (rollout.reward_of("buyer"), rollout.reward_of("seller")) == (1.0, 0.0)


async def test_who_only_listens_at_its_own_turn_is_silent(tmp_path: Path) -> None:
    async with haggling(tmp_path, ServiceRules(turn_seconds=0.3)) as hub:
        session, seats = await opened(hub)
        async with Client(seats["buyer"].agent_url) as client:
            while CLOSED not in (answer := await said(client, "listen")):
                assert answer.startswith("It is your turn")
        assert (await session.over()).stop is Stop.TIME_LIMIT


async def test_a_model_of_the_run_may_play_the_other_seat(tmp_path: Path) -> None:
    story: list[str] = []
    async with haggling(tmp_path, seats={"seller": "mock/say?text=eight"}) as hub:
        session, seats = await opened(hub)
        assert list(seats) == ["buyer"]
        await haggle(seats["buyer"].agent_url, "seven", story)
        rollout = await session.over()
    assert story == ["It is your turn, and nothing more was said.", "seller: eight"]
    assert [(turn.agent, turn.response.text) for turn in rollout.turns][1::2] == [("seller", "eight")] * 2
    assert rollout.model_of("seller") == "mock/say?text=eight"


async def test_moves_are_calls_that_wait_for_the_other(tmp_path: Path) -> None:
    async with front(tmp_path / "run", environments=("negotiation",)) as hub:
        session, seats = await opened(hub)
        first, second = (seats[name].agent_url for name in ("first", "second"))
        async with Client(first) as one, Client(second) as other, anyio.create_task_group() as moves:

            async def propose() -> None:
                assert await heard(one, NOT_YET)
                assert await said(one, "propose", keep={}, message="all yours") == CLOSED  # by the other's `accept`

            moves.start_soon(propose)
            assert "all yours" in await heard(other)
            assert (await said(other, "accept")).startswith("It is a deal")
        rollout = await session.over()
    assert rollout.outcome is Outcome.SCORED
    assert (rollout.reward_of("first"), rollout.reward_of("second")) == (0.0, 1.0)


async def test_a_client_that_hung_up_finds_what_was_said_meanwhile(tmp_path: Path) -> None:
    async with haggling(tmp_path) as hub:
        _, seats = await opened(hub)
        assert (await call(seats["seller"].agent_url, "listen")).startswith(NOT_YET)
        await call(seats["buyer"].agent_url, "reply", text="seven")
        assert await call(seats["seller"].agent_url, "listen") == "buyer: seven"
