"""Calls of an episode's tools: errors told apart, results passed on, seats kept apart."""

import logging

import anyio
import pytest
from mcp_types import TextContent

from rollouthub import Deadlines
from rollouthub.hosting.local.hosted_episode import BROKEN
from tests.hosting.local.postponed import Postponed
from tests.hosting.local.worlds import CANARY, PICTURE, Market, Workshop, call, host_of, opened, text_of, world_of


async def test_a_call_with_good_arguments_reaches_the_tool() -> None:
    async with opened(Postponed) as episode:
        result = await call(episode, "choices", side="left", size="small")
    assert (text_of(result), result.is_error) == ("('left', <Size.SMALL: 'small'>)", False)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"count": "5", "ratio": 1, "label": "x", "is_on": True}, "argument 'count'"),
        ({"count": 5, "ratio": 1, "label": "x", "is_on": "true"}, "argument 'is_on'"),
        ({"count": 5, "ratio": 1, "label": "x"}, "argument 'is_on' is missing"),
        ({"count": 5, "ratio": 1, "label": "x", "is_on": True, "colour": 1}, "unknown argument 'colour'"),
    ],
)
async def test_bad_arguments_are_the_models_mistake_and_no_fault(arguments: dict[str, object], told: str) -> None:
    async with opened(Postponed) as episode:
        result = await episode.seats["agent"].call_tool("scalars", arguments)
    assert result.is_error
    assert told in text_of(result)
    assert episode.faults == []


async def test_an_unknown_tool_is_named_with_those_there_are() -> None:
    async with opened(Market) as episode:
        result = await call(episode, "sell", "buyer")
    assert result.is_error
    assert text_of(result) == "unknown tool 'sell'; there are: bid, look, get_task, submit"
    assert episode.faults == []


async def test_a_tool_speaks_to_the_model_through_tool_error() -> None:
    async with opened(Workshop) as episode:
        result = await call(episode, "refuse")
    assert (result.is_error, text_of(result)) == (True, "The drawer is locked.")
    assert episode.faults == []


@pytest.mark.parametrize(
    ("kind", "boundary", "type_name"),
    [
        ("plain", "environment", "RuntimeError"),
        ("sandbox", "sandbox", "SandboxError"),
        ("argument", "environment", "TypeError"),
    ],
)
async def test_a_fault_is_shown_as_a_fixed_sentence_and_kept_in_full(
    kind: str, boundary: str, type_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        async with opened(Workshop) as episode:
            result = await call(episode, "crash", kind=kind)
    assert (result.is_error, text_of(result)) == (True, BROKEN)
    (fault,) = episode.faults
    assert (fault.boundary, fault.phase, fault.type) == (boundary, "agent", type_name)
    assert CANARY in fault.message
    assert CANARY in caplog.text


async def test_a_result_no_json_can_say_is_the_environments_fault() -> None:
    async with opened(Workshop) as episode:
        result = await call(episode, "unspeakable")
    assert text_of(result) == BROKEN
    assert [fault.boundary for fault in episode.faults] == ["environment"]


async def test_an_episode_goes_on_after_a_fault() -> None:
    async with opened(Workshop) as episode:
        await call(episode, "crash")
        assert text_of(await call(episode, "note", text="still here")) == '["still here"]'


async def test_a_picture_passes_through() -> None:
    async with opened(Workshop) as episode:
        assert (await call(episode, "picture")).content == [PICTURE]
        assert (await call(episode, "captioned")).content == [TextContent(text="a cat"), PICTURE]


async def test_an_object_is_structured_and_spelled_out() -> None:
    async with opened(Workshop) as episode:
        result = await call(episode, "weather", city="Oslo")
    assert result.structured_content == {"city": "Oslo", "degrees": 21.5}
    assert text_of(result) == '{"city":"Oslo","degrees":21.5}'


async def test_a_tool_past_its_deadline_is_stopped_and_the_model_told() -> None:
    async with opened(Workshop, deadlines=Deadlines(tool_call=0.05)) as episode:
        result = await call(episode, "wait")
        assert (result.is_error, text_of(result)) == (True, "wait was stopped after 0.05 seconds.")
        assert world_of(episode, Workshop).cleaned == 1
    assert episode.faults == []


async def test_a_caller_that_goes_away_cancels_its_call() -> None:
    async with opened(Workshop) as episode:
        world = world_of(episode, Workshop)
        async with anyio.create_task_group() as caller:
            caller.start_soon(call, episode, "wait")
            await world.is_waiting.wait()
            caller.cancel_scope.cancel()
        assert world.cleaned == 1
        assert text_of(await call(episode, "note", text="next")) == '["next"]'


async def test_calls_run_at_the_same_time() -> None:
    async with opened(Workshop) as episode:
        world = world_of(episode, Workshop)
        async with anyio.create_task_group() as calls:
            calls.start_soon(call, episode, "wait")
            calls.start_soon(call, episode, "wait")
            await anyio.wait_all_tasks_blocked()
            assert world.waiting == 2
            world.may_finish.set()
        assert world.cleaned == 2


async def test_the_task_may_be_asked_for_again_and_again() -> None:
    async with opened(Workshop) as episode:
        first = await call(episode, "get_task")
        await call(episode, "note", text="x")
        assert await call(episode, "get_task") == first
        assert text_of(first) == "Be brief.\n\nSay yes."
        assert not episode.is_sealed


async def test_each_seat_has_its_own_tools_token_and_conversation() -> None:
    async with opened(Market) as episode:
        buyer, seller = episode.seats["buyer"], episode.seats["seller"]
    assert [tool.name for tool in buyer.tools] == ["bid", "look", "get_task", "submit"]
    assert [tool.name for tool in seller.tools] == ["offer", "look", "get_task", "submit"]
    assert buyer.token != seller.token
    assert buyer.messages[0].text == "You are the buyer."
    assert seller.messages[0].text == "You are the seller."


async def test_a_seat_cannot_call_the_tool_of_another() -> None:
    async with opened(Market) as episode:
        result = await call(episode, "offer", "buyer", price=3)
        assert result.is_error
        assert text_of(result).startswith("unknown tool 'offer'")
        assert world_of(episode, Market).book == {"bids": [], "offers": []}


async def test_seats_act_in_one_world() -> None:
    async with opened(Market) as episode:
        await call(episode, "bid", "buyer", price=3)
        seen = await call(episode, "look", "seller")
    assert seen.structured_content == {"bids": [3], "offers": []}


async def test_a_result_does_not_change_with_the_world() -> None:
    async with opened(Market) as episode:
        before = await call(episode, "bid", "buyer", price=3)
        await call(episode, "bid", "buyer", price=4)
    assert before.structured_content == {"bids": [3], "offers": []}


@pytest.mark.parametrize(
    "name", ["verify", "setup", "seal", "close", "snapshot", "restore", "reference", "messages", "__init__", "task"]
)
async def test_nothing_but_the_tools_can_be_called(name: str) -> None:
    async with opened(Workshop) as episode:
        result = await call(episode, name)
        assert text_of(result).startswith(f"unknown tool {name!r}")
    assert name not in [tool.name for tool in host_of(Workshop).info.tools]
