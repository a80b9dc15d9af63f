"""Answers of the Responses API as items, which go back to the model that wrote them."""

import json
from typing import Any

import pytest

from rollouthub import Message
from rollouthub.messages import assistant, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.resolve import open_lane, open_model
from rollouthub.rollout import Turn
from tests.models.openai_calls import KEYS, lane_to
from tests.models.openai_server import MODEL, OpenAIServer, call_item, message_item, reasoning_item
from tests.models.servers import ask

INTERLEAVED = [
    reasoning_item("one", number=1),
    call_item("add", '{"a":1}', 1),
    reasoning_item("two \U0001f512", "and\nso", number=2),
    call_item("add", '{"a":2}', 2),
    message_item("done", 3),
]


async def again(server: OpenAIServer, url: str, message: Message) -> list[Any]:
    """What is sent of an answer in the next turn."""
    async with lane_to(url, api="responses") as model:
        await model.generate(ask(user("go"), message, user("on")))
    return server.asked[-1][1]["input"][1:-1]


async def test_reasoning_goes_back_unchanged_and_in_its_place_also_from_a_record() -> None:
    server = OpenAIServer(lambda body: INTERLEAVED)
    async with server.serve() as url, lane_to(url, api="responses") as model:
        reply = await model.generate(ask())
        sent = await again(server, url, reply.message)
        record = Turn(index=0, messages=(user("hi"),), response=reply.message).model_dump_json()
        restored = await again(server, url, Turn.model_validate_json(record).response)
    assert sent == INTERLEAVED
    assert restored == sent


@pytest.mark.parametrize(
    "items",
    [
        "nonsense",
        "[1]",
        "[" * 100_000,
        '[{"type":"message","content":"x"}]',
        '"text"',
        json.dumps([message_item("other")]),
    ],
    ids=["no JSON", "numbers", "deep", "another shape", "a text", "other words"],
)
async def test_items_that_say_something_else_are_not_sent(items: str) -> None:
    server = OpenAIServer(lambda body: [reasoning_item("sealed"), message_item("done")])
    async with server.serve() as url:
        async with lane_to(url, api="responses") as model:
            mark = (await model.generate(ask())).message.items_from
        said = assistant("done").model_copy(update={"items": items, "items_from": mark})
        sent = await again(server, url, said)
    assert sent == [{"type": "message", "role": "assistant", "content": "done"}]


async def test_an_edited_answer_goes_without_its_reasoning() -> None:
    server = OpenAIServer(lambda body: [reasoning_item("sealed"), message_item("wrong")])
    async with server.serve() as url, lane_to(url, api="responses") as model:
        reply = await model.generate(ask())
        assert reply.message.items is not None
        sent = await again(server, url, reply.message.model_copy(update={"content": "right"}))
    assert sent == [{"type": "message", "role": "assistant", "content": "right"}]


async def test_a_summary_without_its_reasoning_is_kept_for_reading_alone() -> None:
    whole = {**reasoning_item("", "hm"), "encrypted_content": None}
    server = OpenAIServer(lambda body: [whole, message_item("done")])
    async with server.serve() as url, lane_to(url, api="responses") as model:
        reply = await model.generate(ask())
    assert (reply.message.reasoning, reply.message.items) == ("hm", None)


async def test_another_model_and_another_server_are_not_sent_what_they_did_not_write() -> None:
    server = OpenAIServer(lambda body: [reasoning_item("sealed"), message_item("done")])
    async with server.serve() as url, server.serve() as other_url:
        async with lane_to(url, api="responses") as model:
            reply = await model.generate(ask())
        for name, address in ((MODEL, url), ("other", url), (MODEL, other_url)):
            config = ModelConfig(name=f"openai/{name}", lane="openai", api="responses")
            async with open_lane(config, address, KEYS) as model:
                await model.generate(ask(user("go"), reply.message, user("on")))
    own, *others = ["sealed" in json.dumps(asked) for _, asked in server.asked[1:]]
    assert own
    assert others == [False, False]


async def test_a_fallback_is_not_sent_what_the_model_thought_and_the_model_not_what_the_fallback_did() -> None:
    """The first turn is the model's, the second the fallback's, the third the model's again."""
    is_down = False

    def say(asked: dict[str, Any]) -> Any:
        if is_down:
            return {"error": {"message": "gone", "code": "insufficient_quota"}, "status": 429}
        return [reasoning_item("of the model"), message_item("one")]

    first = OpenAIServer(say)
    second = OpenAIServer(lambda asked: [reasoning_item("of the fallback"), message_item("two")])
    async with first.serve() as url, second.serve() as other:
        stand_in = ModelConfig(name="openai/stand-in", base_url=other, lane="openai", api="responses")
        config = ModelConfig(
            name=f"openai/{MODEL}", base_url=url, lane="openai", api="responses", fallbacks=(stand_in,)
        )
        async with open_model(config, KEYS) as model:
            one = await model.generate(ask(user("a")))
            is_down = True
            two = await model.generate(ask(user("a"), one.message, user("b")))
            is_down = False
            await model.generate(ask(user("a"), one.message, user("b"), two.message, user("c")))
    assert (one.message.text, two.message.text, two.model) == ("one", "two", "openai/stand-in")
    assert "of the model" not in json.dumps(second.asked)
    last = json.dumps(first.asked[-1])
    assert "of the model" in last
    assert "of the fallback" not in last


async def test_items_longer_than_any_thought_are_not_kept() -> None:
    """A record holds an answer's items, and each later turn reads them anew."""
    server = OpenAIServer(lambda body: [reasoning_item("s" * 5 * 2**20), message_item("done")])
    async with server.serve() as url, lane_to(url, api="responses") as model:
        reply = await model.generate(ask())
    assert (reply.message.text, reply.message.items) == ("done", None)
