"""The tokens lane over real HTTP: what it sends, what it reads, and how it fails."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from aiohttp import web
from mcp_types import Tool
from pydantic import JsonValue

from rollouthub import Message, Sampling, Text, picture, segments
from rollouthub.engine.recorder import Recorder
from rollouthub.errors import ConfigError, ContextLimitError, ModelError
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.endpoint import Endpoint
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_lane, open_model
from rollouthub.models.tokens.tokens_lane import TokensLane, open_tokens
from rollouthub.values import Int32s
from tests.engine.picture_world import png
from tests.hub.test_rollout import rollout
from tests.models.servers import AT_ONCE, ask
from tests.models.tokens.chatml import ChatMl, odd_ids
from tests.models.tokens.shown_pictures import picture_tokens
from tests.models.tokens.vllm_routes import IMAGE, Loses, VllmRoutes, sampled

ADD = Tool(name="add", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
END = ChatMl().end
WORDS = [*odd_ids("The answer is 17.", 3), END]
CALL = [*odd_ids('<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>', 3), END]


@asynccontextmanager
async def lane(routes: VllmRoutes, **config: Any) -> AsyncGenerator[TokensLane]:
    """The lane to a server of these routes, which tries again at once."""
    async with routes.serve() as url:
        endpoint = Endpoint("served", url, "HOSTED_VLLM_API_KEY")
        async with open_tokens(
            ModelConfig(name="hosted_vllm/served", base_url=url, **config), endpoint, backoff=AT_ONCE
        ) as model:
            yield model


async def test_a_conversation_with_calls_is_one_row_of_what_the_server_sampled() -> None:
    routes, recorder = VllmRoutes(sampled(CALL), sampled(CALL), sampled(WORDS)), Recorder()
    conversation = [user("What is the sum?")]
    async with routes.serve() as url:
        config = ModelConfig(name="hosted_vllm/served", base_url=url, lane="tokens")
        async with open_model(config, Credentials()) as model:
            await preflight(model, sampling=Sampling(temperature=0.5))
            for _ in range(3):
                reply = await model.generate(ask(*conversation, tools=[ADD], session="r1"))
                recorder.add_turn("agent", conversation, reply.message, reply, {}, 0.0)
                results = [
                    Message(role="tool", content="3", tool_call_id=call.id) for call in reply.message.tool_requests
                ]
                conversation = [*conversation, reply.message, *results]
    turns = tuple(turn.close() for turn in recorder.turns)
    assert [turn.finish_reason for turn in turns] == ["tool_calls", "tool_calls", "stop"]
    assert turns[2].response.text == "The answer is 17."
    assert turns[0].response.tool_requests[0].arguments == '{"a": 1}'
    (row,) = segments(rollout(turns=turns))
    assert [row.token_ids.tolist()[: len(asked["token_ids"])] for asked in routes.asked["generate"]] == [
        asked["token_ids"] for asked in routes.asked["generate"]
    ]
    assert sum(row.loss_mask) == 2 * len(CALL) + len(WORDS)
    learnt = [value for value, mask in zip(row.logprobs, row.loss_mask, strict=True) if mask]
    assert learnt == [-0.25 * (place + 1) for ids in (CALL, CALL, WORDS) for place in range(len(ids))]


async def test_the_server_samples_with_its_own_defaults_and_what_was_asked_for() -> None:
    routes = VllmRoutes(*(sampled(WORDS) for _ in range(3)))
    asked = [Sampling(temperature=0.9), Sampling(temperature=0.9, seed=7, max_tokens=5), Sampling(extra={"top_k": 3})]
    async with lane(routes, sampling=Sampling(max_tokens=64)) as model:
        for sampling in asked:
            await model.generate(ask(user("What?"), sampling=sampling))
    assert [each["sampling_params"] for each in routes.asked["generate"]] == [
        {"temperature": 0.9, "top_k": 20, "logprobs": 0, "max_tokens": 64},
        {"temperature": 0.9, "top_k": 20, "logprobs": 0, "max_tokens": 5, "seed": 7},
        {"temperature": 0.6, "top_k": 3, "logprobs": 0, "max_tokens": 64},
    ]
    # Three prompts, and what two ways of sampling mean to the server: seeds and bounds are not asked again.
    assert len(routes.asked["render"]) == 5


async def test_without_a_bound_the_server_takes_what_is_left_of_the_context() -> None:
    routes = VllmRoutes(sampled(WORDS))
    async with lane(routes) as model:
        await model.generate(ask(user("What?"), session="r7"))
    assert "max_tokens" not in routes.asked["generate"][0]["sampling_params"]
    assert routes.headers[0]["X-Session-ID"] == "r7"


async def test_how_a_conversation_is_written_is_the_templates_to_know() -> None:
    routes = VllmRoutes(sampled(WORDS))
    written: dict[str, JsonValue] = {"chat_template_kwargs": {"enable_thinking": False}}
    async with lane(routes) as model:
        await model.generate(ask(user("What?"), sampling=Sampling(extra={**written, "min_p": 0.1})))
    prompt = next(each for each in routes.asked["render"] if each["messages"][0]["content"] == "What?")
    assert prompt["chat_template_kwargs"] == {"enable_thinking": False}
    assert "min_p" not in prompt
    assert routes.asked["derender"][0]["chat_request"]["chat_template_kwargs"] == {"enable_thinking": False}


@pytest.mark.parametrize(
    ("spans", "version", "versions"),
    [
        ([("7", 0, 3), ("8", 3, len(WORDS))], 7, [7] * 3 + [8] * (len(WORDS) - 3)),
        ([("7", 0, len(WORDS))], 7, None),
        ([("default", 0, len(WORDS))], None, None),
        ([("7", 0, 2)], None, None),
        (None, None, None),
    ],
)
async def test_weights_that_changed_in_mid_answer_are_told_by_token(
    spans: list[tuple[str, int, int]] | None, version: int | None, versions: list[int] | None
) -> None:
    told = None if spans is None else [{"version": mark, "start": start, "end": end} for mark, start, end in spans]
    async with lane(VllmRoutes(sampled(WORDS, weight_versions=told))) as model:
        reply = await model.generate(ask(user("What?")))
    assert reply.policy_version == version
    assert reply.policy_versions == (None if versions is None else Int32s(versions))


async def test_words_leave_out_what_ended_them() -> None:
    ended = sampled([*odd_ids("so STOP", 1)], stop_reason="STOP")
    async with lane(VllmRoutes(sampled(WORDS), ended, sampled([END]))) as model:
        texts = [
            (await model.generate(ask(user("What?"), sampling=Sampling(stop=("STOP",))))).message.text for _ in range(3)
        ]
    assert texts == ["The answer is 17.", "so ", ""]


@pytest.mark.parametrize("offers", ["none", "off"])
async def test_a_server_without_the_routes_is_refused_before_the_run(offers: str) -> None:
    routes = VllmRoutes()
    async with routes.serve(offers) as url:
        config = ModelConfig(name="hosted_vllm/served", base_url=url, lane="tokens")
        async with open_lane(config, None, Credentials()) as model:
            with pytest.raises(ConfigError, match=r"--enable-scale-out.*--lane direct"):
                await preflight(model)
            with pytest.raises(ModelError, match="does not offer") as caught:
                await model.generate(ask(user("What?")))
    assert not caught.value.retryable


async def test_what_passes_is_tried_again_and_what_does_not_is_not() -> None:
    def busy() -> web.Response:
        return web.json_response({"error": {"message": "busy"}}, status=503)

    routes = VllmRoutes(busy(), busy(), sampled(WORDS))
    async with lane(routes) as model:
        assert (await model.generate(ask(user("What?")))).retries == 2
    async with lane(VllmRoutes(busy(), busy()), max_tries=2) as model:
        with pytest.raises(ModelError, match=r"busy.*after 2 tries"):
            await model.generate(ask(user("What?")))
    long = {"error": {"message": "The decoder prompt (length 9) is longer than the maximum model length of 8."}}
    async with lane(VllmRoutes(web.json_response(long, status=400))) as model:
        with pytest.raises(ContextLimitError):
            await model.generate(ask(user("What?")))


async def test_a_server_that_goes_in_mid_conversation_is_a_model_that_failed() -> None:
    routes = VllmRoutes(sampled(WORDS))
    async with lane(routes, max_tries=2) as model:
        reply = await model.generate(ask(user("What?"), session="r1"))
        routes.is_down = True
        with pytest.raises(ModelError, match=r"down.*after 2 tries") as caught:
            await model.generate(ask(user("What?"), reply.message, user("Why?"), session="r1"))
    assert caught.value.retryable


@pytest.mark.parametrize("answer", [{}, {"choices": []}, {"choices": [{"token_ids": ["x"]}]}, {"choices": 3}])
async def test_an_answer_of_another_shape_is_an_error(answer: dict[str, Any]) -> None:
    async with lane(VllmRoutes(web.json_response(answer))) as model:
        with pytest.raises(ModelError, match="no answer that is understood"):
            await model.generate(ask(user("What?")))


async def test_an_answer_that_was_broken_off_for_new_weights_goes_on_from_there() -> None:
    def part(ids: list[int], version: int, **more: Any) -> dict[str, Any]:
        return sampled(ids, weight_versions=[{"version": str(version), "start": 0, "end": len(ids)}], **more)

    routes = VllmRoutes(part(WORDS[:4], 7, finish_reason="abort"), part(WORDS[4:], 8))
    async with lane(routes) as model:
        reply = await model.generate(ask(user("What?"), sampling=Sampling(max_tokens=50, seed=3)))
    assert reply.message.text == "The answer is 17."
    assert (reply.output_token_ids, reply.retries) == (Int32s(WORDS), 1)
    assert reply.policy_versions == Int32s([7] * 4 + [8] * (len(WORDS) - 4))
    first, second = routes.asked["generate"]
    assert second["token_ids"] == [*first["token_ids"], *WORDS[:4]]
    assert [each["sampling_params"]["max_tokens"] for each in (first, second)] == [50, 46]


async def test_an_answer_that_is_broken_off_again_and_again_is_worth_another_attempt() -> None:
    routes = VllmRoutes(*(sampled(WORDS[:2], finish_reason="abort") for _ in range(2)))
    async with lane(routes, max_tries=2) as model:
        with pytest.raises(ModelError, match="abort") as caught:
            await model.generate(ask(user("What?")))
    assert caught.value.retryable


async def test_calls_cost_what_their_tokens_do() -> None:
    async with lane(VllmRoutes(sampled(WORDS)), price_prompt=1.0, price_output=2.0) as model:
        reply = await model.generate(ask(user("What?")))
    assert reply.cost == (reply.usage.prompt_tokens + 2 * reply.usage.output_tokens) / 1e6


SHADES = [png(1), png(2) + b"12", png(3) + b"123"]


def shown(*raws: bytes, role: Literal["user", "tool"] = "user", call_id: str | None = None) -> Message:
    """A message that shows pictures behind a word."""
    parts = (Text(text="See:"), *(picture(raw) for raw in raws))
    return Message(role=role, content=parts, tool_call_id=call_id)


async def test_pictures_stand_at_their_places_behind_ids_that_were_sampled() -> None:
    """The server renders other ids than it sampled, so that each later picture's place is another, too."""
    routes, recorder = VllmRoutes(sampled(CALL), sampled(WORDS), sampled(WORDS)), Recorder()
    conversation: list[Message] = [shown(SHADES[0], SHADES[1])]
    async with lane(routes) as model:
        for _ in range(3):
            reply = await model.generate(ask(*conversation, tools=[ADD], session="r1"))
            recorder.add_turn("agent", conversation, reply.message, reply, {}, 0.0)
            calls = [shown(SHADES[2], role="tool", call_id=call.id) for call in reply.message.tool_requests]
            conversation = [*conversation, reply.message, *(calls or [shown(SHADES[0])])]
    assert routes.seen == [SHADES[:2], SHADES, [*SHADES, SHADES[0]]]
    # Tensors are megabytes: what is only compared is rendered without them.
    compared = [body for body in routes.asked["render"] if body.get("add_generation_prompt") is False]
    assert {body.get("mm_payload") for body in compared if _has_pictures(body)} == {"none"}
    (row,) = segments(rollout(turns=tuple(turn.close() for turn in recorder.turns)))
    prompts = [asked["token_ids"] for asked in routes.asked["generate"]]
    assert [row.token_ids.tolist()[: len(ids)] for ids in prompts] == prompts
    counts = [picture_tokens(raw) for raw in (*SHADES, SHADES[0])]
    assert row.token_ids.tolist().count(IMAGE) == sum(counts)
    assert sum(row.loss_mask) == len(CALL) + 2 * len(WORDS)


def _has_pictures(body: dict[str, Any]) -> bool:
    return any(isinstance(message["content"], list) for message in body["messages"])


async def test_a_policy_that_says_a_pictures_token_moves_no_picture() -> None:
    routes = VllmRoutes(sampled([IMAGE, *WORDS]), sampled(WORDS))
    first, second = shown(SHADES[0]), shown(SHADES[1])
    async with lane(routes) as model:
        reply = await model.generate(ask(first, session="r1"))
        await model.generate(ask(first, reply.message, second, session="r1"))
    (_, continued) = routes.asked["generate"]
    assert continued["token_ids"].count(IMAGE) == picture_tokens(SHADES[0]) + 1 + picture_tokens(SHADES[1])
    assert routes.seen == [SHADES[:1], SHADES[:2]]


@pytest.mark.parametrize(
    ("loses", "said"),
    [
        ("pictures", "shows 1 pictures, sounds or files, and the server's rendering has 0"),
        ("tensors", "without its features"),
        ("mask", r"PlaceholderRangeInfo of vLLM 0\.32 lacks is_embed"),
    ],
)
async def test_a_picture_that_the_model_would_not_see_is_refused_before_anything_is_sampled(
    loses: Loses, said: str
) -> None:
    routes = VllmRoutes(sampled(WORDS))
    routes.loses = loses
    async with lane(routes) as model:
        with pytest.raises(ModelError, match=rf"{said}.*--lane direct") as caught:
            await model.generate(ask(shown(SHADES[0])))
    assert not caught.value.retryable
    assert routes.asked["generate"] == []


async def test_what_is_not_the_callers_is_refused_before_any_call() -> None:
    async with lane(VllmRoutes()) as model:
        with pytest.raises(ConfigError, match="tool_choice"):
            await model.check_sampling(Sampling(extra={"tool_choice": "required"}))


@pytest.mark.parametrize("name", ["openai/gpt", "anthropic/claude-3-5-haiku-latest"])
async def test_only_models_of_vllm_take_the_lane(name: str) -> None:
    config = ModelConfig(name=name, base_url="http://127.0.0.1:9/v1", lane="tokens")
    with pytest.raises(ConfigError, match="tokens lane cannot carry"):
        async with open_lane(config, None, Credentials({"OPENAI_API_KEY": "k" * 8})):
            pass
