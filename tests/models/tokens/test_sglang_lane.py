"""SGLang by its name, over real HTTP: what the lanes send, what they read, and what they refuse."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import pytest
from aiohttp import web
from mcp_types import Tool

from rollouthub import Message, Model, Sampling, Text, ToolRequest, picture, segments
from rollouthub.engine.recorder import Recorder
from rollouthub.errors import ConfigError, ModelError
from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, ReplyStream, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_lane
from rollouthub.models.tokens import open_sglang_engine
from rollouthub.models.tokens.sglang_chat_engine import is_expansion
from rollouthub.values import Int32s
from tests.engine.picture_world import png
from tests.hub.test_rollout import rollout
from tests.local_server import serving
from tests.models.servers import ask
from tests.models.tokens.chatml import CHATML, ChatMl, odd_ids
from tests.models.tokens.sglang_shape import PIECES, SglangShape
from tests.models.tokens.shown_pictures import MARK, picture_tokens

ADD = Tool(name="add", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
END = ChatMl().end
WORDS = [*odd_ids("The answer is 17.", 3), END]
CALL = [*odd_ids('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>', 3), END]
SHADES = [png(1), png(2) + b"12", png(3) + b"123"]
KEY = "k" * 8


@asynccontextmanager
async def played(shape: SglangShape, name: str = "sglang/served", **config: Any) -> AsyncGenerator[Model]:
    """The model as a run has it, with the address and key in the environment."""
    async with serving(shape.app()) as url:
        credentials = Credentials({"SGLANG_API_BASE": url, "SGLANG_API_KEY": KEY})
        async with open_lane(ModelConfig(name=name, **config), None, credentials) as model:
            yield model


async def during(meanwhile: Callable[[], Coroutine[Any, Any, None]], call: Awaitable[ModelReply]) -> ModelReply:
    """The reply of a call, during which something else is done."""
    replies = list[ModelReply]()

    async def await_call() -> None:
        replies.append(await call)

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(meanwhile)
            tasks.start_soon(await_call)
    return replies[0]


async def test_a_conversation_with_calls_is_one_row_of_what_the_server_sampled() -> None:
    shape, recorder = SglangShape(answers=[CALL, CALL, WORDS], api_key=KEY), Recorder()
    conversation = [user("What is the sum?")]
    async with played(shape, lane="tokens") as model:
        await preflight(model, sampling=Sampling(temperature=0.5))
        for _ in range(3):
            reply = await model.generate(ask(*conversation, tools=[ADD], session="r1"))
            recorder.add_turn("agent", conversation, reply.message, reply, {}, 0.0)
            results = [Message(role="tool", content="3", tool_call_id=call.id) for call in reply.message.tool_requests]
            conversation = [*conversation, reply.message, *results]
    turns = tuple(turn.close() for turn in recorder.turns)
    assert [turn.finish_reason for turn in turns] == ["tool_calls", "tool_calls", "stop"]
    assert turns[2].response.text == "The answer is 17."
    assert turns[0].response.tool_requests[0].arguments == '{"a": 1}'
    (row,) = segments(rollout(turns=turns))
    prompts = [asked["input_ids"] for asked in shape.asked]
    assert [row.token_ids.tolist()[: len(ids)] for ids in prompts] == prompts
    assert sum(row.loss_mask) == 2 * len(CALL) + len(WORDS)
    learnt = [value for value, mask in zip(row.logprobs, row.loss_mask, strict=True) if mask]
    assert learnt == [-(1 + token % 64) / 64 for token in (*CALL, *CALL, *WORDS)]
    assert shape.sessions == ["r1"] * 3


@pytest.mark.parametrize("lane", ["tokens", "direct"])
async def test_the_server_samples_with_its_own_defaults_and_what_was_asked_for(lane: Any) -> None:
    shape = SglangShape(answers=[WORDS], api_key=KEY)
    async with played(shape, lane=lane, sampling=Sampling(max_tokens=64)) as model:
        await model.generate(ask(user("What?"), sampling=Sampling(temperature=0.9, seed=7, extra={"top_k": 3})))
    (body,) = shape.asked
    named = {"temperature": 0.9, "seed": 7, "top_k": 3, "max_tokens": 64, "model": "served", "logprobs": True}
    assert {name: body[name] for name in named} == named
    assert "top_p" not in body


async def test_a_streamed_answer_is_the_whole_one_with_ids_and_logprobs() -> None:
    shape, pieces = SglangShape(answers=[CALL], api_key=KEY), list[Delta]()

    async def listen(delta: Delta) -> None:
        pieces.append(delta)

    async with played(shape) as model:
        whole = await model.generate(ask(user("What?"), tools=[ADD]))
        streamed = await model.generate(ask(user("What?"), tools=[ADD], stream=ReplyStream(listen)))
    assert [call.arguments for call in streamed.message.tool_requests] == ['{"a": 1}']
    assert (whole.output_token_ids, streamed.output_token_ids) == (Int32s(CALL), Int32s(CALL))
    assert streamed.prompt_token_ids == whole.prompt_token_ids
    assert streamed.output_logprobs == whole.output_logprobs
    assert streamed.output_logprobs is not None
    assert [piece.name for delta in pieces for piece in delta.tools] == ["add"]


@pytest.mark.parametrize("lane", ["tokens", "direct"])
async def test_thoughts_are_read_and_given_back_in_the_field_that_the_server_knows(lane: Any) -> None:
    thought = [*ChatMl().encode("<think>So.</think>The answer.", add_special_tokens=False), END]
    shape = SglangShape(answers=[thought], api_key=KEY, reasoning_parser="qwen3")
    async with played(shape, lane=lane) as model:
        reply = await model.generate(ask(user("What?")))
        await model.generate(ask(user("What?"), reply.message, user("Why?")))
    assert (reply.message.reasoning, reply.message.text) == ("So.", "The answer.")
    assert shape.asked[1]["messages"][1]["reasoning_content"] == "So."


@pytest.mark.parametrize("lane", ["tokens", "direct"])
async def test_weights_that_changed_in_mid_answer_are_told_by_token(lane: Any) -> None:
    shape = SglangShape(answers=[WORDS], api_key=KEY, version="7", held=anyio.Event())

    async def change() -> None:
        await shape.until(lambda: shape.running == 1)
        shape.version, shape.held = "8", None
        shape.change()

    async with played(shape, lane=lane) as model:
        reply = await during(change, model.generate(ask(user("What?"))))
    assert reply.policy_version == 7
    assert reply.policy_versions == Int32s([7] * PIECES + [8] * (len(WORDS) - PIECES))


async def test_an_answer_that_was_broken_off_for_new_weights_goes_on_from_there() -> None:
    thought = [*odd_ids("So.</think>", 2), *CALL]
    shape = SglangShape(
        tokenizer=ChatMl(CHATML.replace("<|im_start|>assistant\n{%", "<|im_start|>assistant\n<think>\n{%")),
        answers=[thought, thought[PIECES:]],
        api_key=KEY,
        version="7",
        held=anyio.Event(),
        reasoning_parser="qwen3",
    )
    asked = [user("What?")]

    async def exchange() -> None:
        await shape.until(lambda: shape.running == 1)
        shape.mode, shape.aborts = "abort", shape.aborts + 1
        shape.change()
        await shape.until(lambda: shape.running == 0)
        shape.version, shape.mode, shape.held = "8", None, None
        shape.change()

    async with played(shape, lane="tokens") as model:
        sampling = Sampling(max_tokens=90, seed=3)
        reply = await during(exchange, model.generate(ask(*asked, tools=[ADD], sampling=sampling)))
    assert [call.arguments for call in reply.message.tool_requests] == ['{"a": 1}']
    assert (reply.message.reasoning, reply.message.text) == ("So.", "")
    assert (reply.output_token_ids, reply.retries, reply.finish_reason) == (Int32s(thought), 1, "tool_calls")
    assert reply.policy_versions == Int32s([7] * PIECES + [8] * (len(thought) - PIECES))
    first, second = shape.asked
    assert second["input_ids"] == [*first["input_ids"], *thought[:PIECES]]
    assert [each["max_tokens"] for each in (first, second)] == [90, 90 - PIECES]


async def test_a_cancelled_call_is_ended_by_its_id() -> None:
    shape = SglangShape(answers=[WORDS], api_key=KEY, held=anyio.Event())
    async with played(shape, lane="tokens") as model, anyio.create_task_group() as tasks:
        with anyio.fail_after(10):
            tasks.start_soon(model.generate, ask(user("What?")))
            await shape.until(lambda: shape.running == 1)
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True), anyio.fail_after(10):
                await shape.until(lambda: shape.running == 0)
    assert shape.aborted == [shape.asked[0]["rid"]]


def shown(*raws: bytes) -> Message:
    """A message that shows pictures behind a word."""
    return Message(role="user", content=(Text(text="See:"), *(picture(raw) for raw in raws)))


async def test_pictures_stand_at_their_places_behind_ids_that_were_sampled() -> None:
    shape, recorder = SglangShape(answers=[CALL, WORDS], api_key=KEY), Recorder()
    media = {picture(raw).digest: raw for raw in SHADES}
    conversation: list[Message] = [shown(SHADES[0], SHADES[1])]
    async with played(shape, lane="tokens") as model:
        for _ in range(2):
            reply = await model.generate(ask(*conversation, tools=[ADD], session="r1", media=media))
            recorder.add_turn("agent", conversation, reply.message, reply, {}, 0.0)
            conversation = [*conversation, reply.message, shown(SHADES[2])]
    assert [len(body["image_data"]) for body in shape.asked] == [2, 3]
    turns = tuple(turn.close() for turn in recorder.turns)
    assert turns[0].response.tool_requests[0].name == "add"
    assert turns[1].response.text == "The answer is 17."
    (row,) = segments(rollout(turns=turns))
    (mark,) = ChatMl().encode(MARK, add_special_tokens=False)
    assert row.token_ids.tolist().count(mark) == sum(map(picture_tokens, SHADES))
    assert shape.asked[1]["input_ids"].count(mark) == 3
    assert sum(row.loss_mask) == len(CALL) + len(WORDS)


async def test_a_server_that_encodes_prompts_with_pictures_anew_is_refused() -> None:
    shape = SglangShape(answers=[CALL, WORDS], api_key=KEY, retokenizes=True)
    media = {picture(raw).digest: raw for raw in SHADES}
    async with played(shape, lane="tokens") as model:
        first = await model.generate(ask(shown(SHADES[0]), session="r1", media=media))
        with pytest.raises(ModelError, match=r"SGLANG_MM_AVOID_RETOKENIZE=0.*--lane direct") as caught:
            await model.generate(ask(shown(SHADES[0]), first.message, user("Go on."), session="r1", media=media))
    assert not caught.value.retryable


async def test_a_sampled_token_that_stands_for_a_picture_is_refused_before_the_server_waits_for_its_picture() -> None:
    (mark,) = ChatMl().encode(MARK, add_special_tokens=False)
    shape = SglangShape(answers=[[*WORDS[:-1], mark, END]], api_key=KEY)
    media = {picture(raw).digest: raw for raw in SHADES}
    async with played(shape, lane="tokens") as model:
        first = await model.generate(ask(shown(SHADES[0]), session="r1", media=media))
        with pytest.raises(ModelError, match=rf"sampled the token {mark},.*--lane direct") as caught:
            await model.generate(ask(shown(SHADES[0]), first.message, user("Go on."), session="r1", media=media))
    assert not caught.value.retryable
    assert len(shape.asked) == 1


@pytest.mark.parametrize("retokenizes", [False, True])
async def test_an_engine_sends_each_pictures_mark_once_and_compares_what_the_server_saw(retokenizes: bool) -> None:
    shape = SglangShape(answers=[WORDS], retokenizes=retokenizes)
    (mark,) = ChatMl().encode(MARK, add_special_tokens=False)
    said, media = WORDS[:-1], dict(zip("ab", SHADES, strict=False))
    one, other = ([mark] * picture_tokens(raw) for raw in SHADES[:2])
    prompt = [*said, *one, *said, *other, *said]
    async with serving(shape.app()) as url, open_sglang_engine(url, mark=mark) as engine:
        with pytest.raises(ModelError, match="another prompt") if retokenizes else nullcontext():
            sampled = await engine.sample(prompt, Sampling(), session="r1", media=media)
            assert sampled.token_ids == WORDS
        assert shape.asked[0]["input_ids"] == [*said, mark, *said, mark, *said]
        with pytest.raises(ModelError, match=r"marks 3 pictures.*shows 2") as caught:
            await engine.sample([*prompt, mark], Sampling(), session="r1", media=media)
    assert not caught.value.retryable


async def test_an_answer_to_pictures_that_is_no_object_is_an_error_of_the_model() -> None:
    async def listed(request: web.Request) -> web.Response:
        return web.json_response(["no", "object"])

    app = web.Application()
    app.router.add_post("/generate", listed)
    async with serving(app) as url, open_sglang_engine(url, mark=9) as engine:
        with pytest.raises(ModelError, match="no tokens with log-probabilities"):
            await engine.sample([1, 9], Sampling(), session="r1", media={"a": SHADES[0]})


@pytest.mark.parametrize(
    ("sent", "seen", "holds"),
    [
        ([1, 9, 2, 9, 3], [1, 9, 9, 2, 9, 9, 9, 3], True),
        ([1, 9, 2], [1, 9, 2], True),
        ([1, 9, 2], [1, 9, 9, 3], False),
        ([1, 9, 2], [1, 1, 9, 9, 2], False),
        ([1, 9, 9, 2, 9], [1, 9, 2, 9, 9], False),
        ([4, 4, 9, 2], [4, 4, 4, 9, 2], False),
        ([1, 9, 2], [], False),
    ],
)
def test_only_the_ids_of_pictures_may_be_more(sent: list[int], seen: list[int], holds: bool) -> None:
    assert is_expansion(sent, seen, 1 + (sent.count(9) > 1 and holds)) is holds


@pytest.mark.parametrize("lane", ["tokens", "direct"])
@pytest.mark.parametrize("arguments", ['{"a": ', "Infinity", "[1]", ""])
async def test_malformed_arguments_of_the_model_do_not_end_the_conversation(lane: Any, arguments: str) -> None:
    shape = SglangShape(answers=[WORDS], api_key=KEY)
    call = ToolRequest(id="c1", name="add", arguments=arguments)
    called = Message(role="assistant", content="", tool_requests=(call,))
    result = Message(role="tool", content="no JSON object", tool_call_id="c1")
    async with played(shape, lane=lane) as model:
        reply = await model.generate(ask(user("What?"), called, result, tools=[ADD]))
    assert reply.message.text == "The answer is 17."
    (sent,) = shape.asked[0]["messages"][1]["tool_calls"]
    assert json.loads(sent["function"]["arguments"]) == {"INVALID_JSON": arguments}


async def test_an_older_server_that_ignores_the_ids_is_refused() -> None:
    shape = SglangShape(answers=[CALL, WORDS], api_key=KEY, ignores_ids=True)
    async with played(shape, lane="tokens") as model:
        first = await model.generate(ask(user("What?"), tools=[ADD], session="r1"))
        result = Message(role="tool", content="3", tool_call_id=first.message.tool_requests[0].id)
        with pytest.raises(ModelError, match=r"did not answer the prompt.*SGLang 0\.5\.23.*--lane direct"):
            await model.generate(ask(user("What?"), first.message, result, tools=[ADD], session="r1"))


async def test_a_server_without_the_routes_is_refused_before_the_run() -> None:
    async with played(SglangShape(api_key=KEY, is_old=True), lane="tokens") as model:
        with pytest.raises(ConfigError, match=r"/v1/tokenize.*SGLang 0\.5\.23.*--lane direct"):
            await preflight(model)


@pytest.mark.parametrize("lane", ["tokens", "direct"])
async def test_an_adapter_is_asked_for_by_its_name(lane: Any) -> None:
    shape = SglangShape(answers=[WORDS], api_key=KEY, adapters={"step-3": "/adapters/3"})
    async with played(shape, "sglang/served:step-3", lane=lane) as model:
        await preflight(model)
        await model.generate(ask(user("What?")))
        await model.generate(ask(user("What?"), adapter="step-3"))
        with pytest.raises(ModelError, match="not loaded: step-4") as caught:
            await model.generate(ask(user("What?"), adapter="step-4"))
    assert not caught.value.retryable
    assert [(body["model"], body.get("lora_path")) for body in shape.asked[:2]] == [
        ("served:step-3", None),
        ("served:step-3", "step-3"),
    ]


async def test_a_model_that_is_not_served_is_said_with_the_nearest() -> None:
    async with played(SglangShape(api_key=KEY), "sglang/serve") as model:
        with pytest.raises(ConfigError, match=r"serves no model 'serve'; did you mean 'served'"):
            await preflight(model)


async def test_a_model_whose_weights_were_loaded_from_a_folder_is_found_by_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    shape = SglangShape(api_key=KEY, served="/checkpoints/7", adapters={"step-3": "/adapters/3"})
    for name in ("sglang/served", "sglang/served:step-3"):
        async with played(shape, name) as model:
            await preflight(model)
    assert "lists its model as /checkpoints/7, and is asked for it as served" in caplog.text


async def test_what_is_not_the_callers_is_refused_before_any_call() -> None:
    async with played(SglangShape(api_key=KEY), lane="tokens") as model:
        with pytest.raises(ConfigError, match="input_ids"):
            await preflight(model, sampling=Sampling(extra={"input_ids": [1]}))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"name": "sglang/x"}, r"no server is known for 'sglang/x'.*127\.0\.0\.1:30000/v1.*SGLANG_API_BASE"),
        ({"name": "sglang/x", "base_url": "http://127.0.0.1:9", "lane": "litellm"}, "litellm knows no SGLang"),
    ],
)
async def test_what_cannot_be_played_is_said_before_any_call(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        async with open_lane(ModelConfig(**config), None, Credentials({})):
            pass
