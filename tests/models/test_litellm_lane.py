"""The litellm lane beyond what both lanes share: providers' quirks and wires, prices, silence, and its clients' end."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from aiohttp import web
from mcp_types import Tool

from rollouthub import Message, ModelError, Sampling
from rollouthub.errors import ConfigError, ContextLimitError, CredentialError, UsageError
from rollouthub.generation import ModelReply
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.litellm.lane import LitellmModel
from rollouthub.models.litellm.package import load_litellm
from rollouthub.models.preflight import preflight
from rollouthub.models.resolve import open_lane
from rollouthub.rollout import Usage
from rollouthub.tracing import TRACEPARENT
from tests.models.listening import hear
from tests.models.servers import DONE, Handler, Script, ask, body, chunk, mock_server, say, serving, streaming

KEY = "hush-hush-hush"
KEYS = Credentials({"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY, "HOSTED_VLLM_API_KEY": KEY})
ADD = Tool(name="add", description="Add.", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})
USED = {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000}


@asynccontextmanager
async def lane_to(url: str | None, name: str, **config: Any) -> AsyncGenerator[LitellmModel]:
    """A model of the litellm lane at a server."""
    async with open_lane(ModelConfig(name=name, lane="litellm", **config), url, KEYS) as model:
        assert isinstance(model, LitellmModel)
        yield model


async def sent(name: str, sampling: Sampling) -> dict[str, Any]:
    """What a server of the OpenAI wire is sent."""
    script = Script(say())
    async with script.serve() as url, lane_to(url, name) as model:
        await model.generate(ask(sampling=sampling))
    del script.asked[0]["messages"]
    return script.asked[0]


@pytest.mark.parametrize("model", ["o3", "o4-mini", "gpt-5", "gpt-5-mini"])
async def test_models_of_openai_that_reason_are_sent_their_own_fields(model: str) -> None:
    asked = await sent(f"openai/{model}", Sampling(max_tokens=50, extra={"reasoning_effort": "low"}))
    assert asked == {"model": model, "max_completion_tokens": 50, "reasoning_effort": "low"}


async def test_older_models_of_openai_are_sent_theirs() -> None:
    asked = await sent("openai/gpt-4o-mini", Sampling(max_tokens=50, temperature=0.5))
    assert asked == {"model": "gpt-4o-mini", "max_tokens": 50, "temperature": 0.5}


async def test_a_name_without_a_provider_reaches_its_server() -> None:
    assert (await sent("gpt-4o-mini", Sampling()))["model"] == "gpt-4o-mini"


async def test_a_parameter_the_provider_does_not_take_is_named_not_dropped() -> None:
    script = Script(say())
    async with script.serve() as url, lane_to(url, "openai/o3") as model:
        with pytest.raises(ModelError, match=r"o3.*temperature") as caught:
            await model.generate(ask(sampling=Sampling(temperature=0.2)))
    assert (caught.value.retryable, script.asked) == (False, [])


@pytest.mark.parametrize(
    "field", ["mock_response", "api_key", "base_url", "num_retries", "stream", "stream_options", "drop_params"]
)
async def test_what_steers_litellm_is_no_sampling(field: str) -> None:
    script = Script(say())
    async with script.serve() as url, lane_to(url, "hosted_vllm/x") as model:
        with pytest.raises(ModelError, match=f"'{field}'"):
            await model.generate(ask(sampling=Sampling(extra={field: "x"})))
    assert script.asked == []


async def test_a_stream_is_left_alone_and_the_reply_is_whole() -> None:
    script = Script(say("hi"))
    async with script.serve() as url, lane_to(url, "openai/x") as model:
        reply, listener = await hear(model, ask())
    assert (reply.message.text, listener.heard, listener.stream.has_begun) == ("hi", [], False)
    assert "stream" not in script.asked[0]


async def test_what_litellm_makes_of_a_stream_stays_known() -> None:
    """Why this lane does not stream; whoever finds this gone may let it."""
    litellm = await load_litellm("the test")
    first = {**chunk({"content": "half an"}, token_ids=[5]), "prompt_token_ids": [1, 2, 3]}
    async with Script(streaming(first, chunk({}, "stop"), DONE)).serve() as url:
        asked: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
        more: dict[str, Any] = {"stream": True, "stream_options": {"include_usage": True}}
        stream = await litellm.acompletion("hosted_vllm/x", asked, base_url=url, api_key="none", **more)
        chunks = [each async for each in stream]
    assert [getattr(each, "prompt_token_ids", None) for each in chunks] == [None, None, None]
    assert chunks[-1].usage.completion_tokens > 0


async def test_a_server_learns_which_trace_a_call_belongs_to() -> None:
    script, parent = Script(say()), f"00-{'a' * 32}-{'b' * 16}-01"
    async with script.serve() as url, lane_to(url, "openai/x") as model:
        before = TRACEPARENT.set(parent)
        await model.generate(ask())
        TRACEPARENT.reset(before)
        await model.generate(ask())
    assert [headers.get("traceparent") for headers in script.headers] == [parent, None]


# --- another wire -----------------------------------------------------------------------------------------------


@asynccontextmanager
async def anthropic(handle: Handler, asked: list[dict[str, Any]]) -> AsyncGenerator[str]:
    async def messages(request: web.Request) -> web.StreamResponse:
        asked.append(await request.json())
        assert request.headers["x-api-key"] == KEY
        return await handle(request)

    app = web.Application()
    app.router.add_post("/v1/messages", messages)
    async with serving(app) as url:
        yield url.removesuffix("/v1")


async def test_another_wire_gives_the_same_kind_of_answer() -> None:
    answer = {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-4-5",
        "content": [
            {"type": "text", "text": "Adding."},
            {"type": "tool_use", "id": "t1", "name": "add", "input": {"a": 1}},
        ],
        "stop_reason": "tool_use",
        "usage": {
            "input_tokens": 7,
            "output_tokens": 5,
            "cache_read_input_tokens": 3,
            "cache_creation_input_tokens": 0,
        },
    }
    asked: list[dict[str, Any]] = []
    conversation = [
        Message(role="system", content="Be brief."),
        user("Add 1 and 2."),
        Message.model_validate(
            {
                "role": "assistant",
                "content": "",
                "tool_requests": [{"id": "t0", "name": "add", "arguments": '{"a": 2}'}],
            }
        ),
        Message(role="tool", content="2", tool_call_id="t0"),
    ]
    async with anthropic(body(answer), asked) as url, lane_to(url, "anthropic/claude-sonnet-4-5") as model:
        reply = await model.generate(ask(*conversation, tools=[ADD], sampling=Sampling(max_tokens=9)))
    (request,) = reply.message.tool_requests
    assert (reply.message.text, request.id, request.name, request.arguments) == ("Adding.", "t1", "add", '{"a": 1}')
    assert reply.finish_reason == "tool_calls"
    assert reply.usage == Usage(prompt_tokens=10, output_tokens=5, cached_tokens=3)
    assert reply.cost is None, "a server on this machine bills nobody at Anthropic's prices"
    assert reply.output_token_ids is None
    assert asked[0]["max_tokens"] == 9
    assert asked[0]["tools"][0]["input_schema"]["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize(
    ("status", "kind", "words", "expected", "retryable"),
    [
        (400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextLimitError, False),
        (400, "invalid_request_error", "messages: too few", ModelError, False),
        (401, "authentication_error", "invalid x-api-key", ModelError, False),
        (404, "not_found_error", "model: claude-of-old", ModelError, False),
        (429, "rate_limit_error", "slow down", ModelError, True),
        (500, "api_error", "oops", ModelError, True),
        (529, "overloaded_error", "Overloaded", ModelError, True),
    ],
)
async def test_errors_of_another_wire_are_typed_the_same(
    status: int, kind: str, words: str, expected: type[ModelError], retryable: bool
) -> None:
    told = body({"type": "error", "error": {"type": kind, "message": words}}, status)
    async with anthropic(told, []) as url, lane_to(url, "anthropic/claude-sonnet-4-5", max_tries=1) as model:
        with pytest.raises(ModelError, match=words) as caught:
            await model.generate(ask())
    assert type(caught.value) is expected
    assert (caught.value.status, caught.value.retryable) == (status, retryable)


async def test_what_another_wire_does_not_take_is_named() -> None:
    asked: list[dict[str, Any]] = []
    async with anthropic(say(), asked) as url, lane_to(url, "anthropic/claude-sonnet-4-5") as model:
        with pytest.raises(ModelError, match="the provider does not take 'seed'; leave it out") as caught:
            await model.generate(ask(sampling=Sampling(seed=1)))
    assert (caught.value.retryable, asked) == (False, [])


# --- cost -------------------------------------------------------------------------------------------------------


async def billed(name: str, **config: Any) -> ModelReply:
    answer = say(usage=USED, model=name.rpartition("/")[2])
    async with Script(answer).serve() as url, lane_to(url, name, **config) as model:
        return await model.generate(ask())


async def test_somebody_elses_server_is_not_billed_at_openais_prices() -> None:
    assert (await billed("openai/gpt-4o-mini")).cost is None


async def test_the_users_prices_win() -> None:
    assert (await billed("openai/gpt-4o-mini", price_prompt=2.0)).cost == 2.0


async def test_an_unknown_price_is_unknown_not_zero() -> None:
    assert (await billed("hosted_vllm/x")).cost is None


async def test_a_provider_known_by_its_own_address_is_billed_by_litellms_list() -> None:
    """Azure's customers each have an address: calls there cost what Azure's list says, cached tokens less."""

    async def handle(request: web.Request) -> web.StreamResponse:
        used = USED | {"prompt_tokens_details": {"cached_tokens": 400_000}}
        return await say(usage=used, model="gpt-4o-2024-08-06")(request)

    app = web.Application()
    app.router.add_post("/openai/deployments/gpt-4o/chat/completions", handle)
    keys = Credentials({"AZURE_API_KEY": KEY, "AZURE_API_VERSION": "2025-01-01", "AZURE_API_BASE": "http://unused"})
    async with serving(app) as url:
        config = ModelConfig(name="azure/gpt-4o", base_url=url.removesuffix("/v1"))
        async with open_lane(config, None, keys) as model:
            reply = await model.generate(ask())
    assert reply.cost == pytest.approx(0.6 * 2.5 + 0.4 * 1.25)


# --- silence and ends -------------------------------------------------------------------------------------------


async def test_nothing_is_printed_or_logged_of_a_call(
    capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    script = Script(body({"error": {"message": "no"}}, 400), say())
    async with script.serve() as url, lane_to(url, "openai/x") as model:
        with pytest.raises(ModelError):
            await model.generate(ask(user("my secret question")))
        await model.generate(ask(user("my secret question")))
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "secret question" not in caplog.text


async def test_a_call_leaves_no_task_and_no_client_behind() -> None:
    litellm = await load_litellm("a test")
    clients: dict[str, Any] = litellm.in_memory_llm_clients_cache.cache_dict
    before = set(clients)
    async with mock_server() as url:
        async with lane_to(url, "hosted_vllm/served") as one, lane_to(url, "openai/served") as other:
            await one.generate(ask())
            await other.generate(ask())
            assert len(set(clients) - before) == 2
        assert set(clients) <= before
    await anyio.wait_all_tasks_blocked()
    assert [task for task in asyncio.all_tasks() if "litellm" in repr(task.get_coro())] == []


@pytest.mark.parametrize("name", ["hosted_vllm/served", "openai/served"])
async def test_calls_share_connections_whatever_time_each_has(name: str) -> None:
    peers: set[str] = set()

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return await say()(request)

    async with Script(handle).serve() as url, lane_to(url, name) as model:
        for seconds in (3.0, 4.0, 5.0):
            await model.generate(ask(timeout_seconds=seconds))
    assert len(peers) == 1


async def test_a_model_outlives_another_that_is_closed() -> None:
    async with mock_server() as url, lane_to(url, "hosted_vllm/served") as model:
        async with lane_to(url, "hosted_vllm/served") as other:
            await other.generate(ask())
        await model.generate(ask())
    async with mock_server() as url, lane_to(url, "hosted_vllm/served") as model:
        await model.generate(ask())


async def test_more_calls_than_connections_wait_their_turn() -> None:
    now = most = 0

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await anyio.lowlevel.checkpoint()
        now -= 1
        return await say()(request)

    async with Script(handle).serve() as url, lane_to(url, "hosted_vllm/x", max_connections=2) as model:
        with anyio.fail_after(10):
            async with anyio.create_task_group() as calls:
                for _ in range(20):
                    calls.start_soon(model.generate, ask())
    assert most <= 2


async def test_a_call_that_waits_for_its_turn_still_ends_in_time() -> None:
    async def never(request: web.Request) -> web.StreamResponse:
        await anyio.sleep_forever()
        raise AssertionError

    async with Script(never).serve() as url, lane_to(url, "hosted_vllm/x", max_connections=1, max_tries=1) as model:

        async def call() -> None:
            with pytest.raises(ModelError, match=r"no answer|time was over"):
                await model.generate(ask(timeout_seconds=0.3))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as calls:
                for _ in range(3):
                    calls.start_soon(call)


async def test_a_server_of_the_wire_is_checked_before_the_run() -> None:
    async with mock_server(api_key=KEY) as url:
        async with lane_to(url, "hosted_vllm/served") as model:
            await preflight(model)
        async with lane_to(url, "hosted_vllm/serve") as model:
            with pytest.raises(ConfigError, match="did you mean 'served'"):
                await preflight(model)
        async with open_lane(ModelConfig(name="openai/served", lane="litellm"), url, Credentials()) as keyless:
            with pytest.raises(CredentialError, match="set OPENAI_API_KEY"):
                await preflight(keyless)
    async with lane_to(url, "openai/served") as model:
        with pytest.raises(UsageError, match="nothing listens"):
            await preflight(model)


async def test_providers_of_other_wires_are_met_at_the_first_call() -> None:
    async with lane_to(None, "anthropic/claude-sonnet-4-5") as model:
        await preflight(model)
        assert KEY not in repr(model)
