"""Agents outside hold their conversation in words: encrypted reasoning is put back before the model is asked again."""

from typing import Any

import pytest

from rollouthub import Outcome
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from rollouthub.protocols import SeatAddress
from tests.gateway.outside import GatewayHarness, harness
from tests.models.openai_server import MODEL, OpenAIServer, call_item, message_item, reasoning_item

THOUGHT = [reasoning_item("sealed"), call_item("count", "{}")]


async def two_calls(made: GatewayHarness, address: SeatAddress, *, edits: bool) -> None:
    """A loop over chat completions, which may change what was said."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "count"}]
    _, answer = await made.chat(address, messages)
    said = answer["choices"][0]["message"]
    called = {"role": "assistant", "content": "mine" if edits else None, "tool_calls": said["tool_calls"]}
    result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "1"}
    await made.chat(address, [*messages, called, result])


@pytest.mark.parametrize("edits", [False, True], ids=["as it was", "edited"])
async def test_reasoning_is_sent_back_for_an_agent_that_never_saw_it(edits: bool) -> None:
    server = OpenAIServer(lambda body: [message_item("1")] if len(body["input"]) > 1 else THOUGHT)
    config = ModelConfig(name=f"openai/{MODEL}", lane="openai", api="responses")
    async with (
        server.serve() as url,
        open_lane(config, url, Credentials({"OPENAI_API_KEY": "hush-hush"})) as model,
        harness() as made,
    ):
        rollout = await made.play(lambda address: two_calls(made, address, edits=edits), model=model)
    assert rollout.outcome is Outcome.SCORED, rollout.faults
    sent = server.asked[1][1]["input"]
    first, second = rollout.turns
    if edits:
        assert not any(item.get("type") == "reasoning" for item in sent)
        assert second.parent_turn is None
    else:
        assert sent[1:3] == THOUGHT
        assert second.parent_turn == first.index


async def test_answers_that_are_alike_get_each_its_own_items_back() -> None:
    def say(body: dict[str, Any]) -> list[dict[str, Any]]:
        number = sum(item.get("role") == "user" for item in body["input"])
        return [reasoning_item(f"thought {number}", number=number), message_item("ok", number)]

    async def thrice(made: GatewayHarness, address: SeatAddress) -> None:
        messages: list[dict[str, Any]] = []
        for _ in range(3):
            messages.append({"role": "user", "content": "go on"})
            await made.chat(address, messages)
            messages.append({"role": "assistant", "content": "ok"})

    server = OpenAIServer(say)
    config = ModelConfig(name=f"openai/{MODEL}", lane="openai", api="responses")
    async with (
        server.serve() as url,
        open_lane(config, url, Credentials({"OPENAI_API_KEY": "hush-hush"})) as model,
        harness() as made,
    ):
        await made.play(lambda address: thrice(made, address), model=model)
    sent = server.asked[-1][1]["input"]
    assert [item["encrypted_content"] for item in sent if item["type"] == "reasoning"] == ["thought 1", "thought 2"]
