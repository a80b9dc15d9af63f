"""The openai lane: the Responses API and Chat Completions, as OpenAI's own types describe them."""

from dataclasses import replace
from typing import Any

import anyio
import pytest
from aiohttp import web
from mcp_types import Tool

from rollouthub import Message, ModelError, Sampling
from rollouthub.errors import ConfigError, ContextLimitError, OverlongAnswer
from rollouthub.messages import Delta, Media, ReplyStream, system
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.openai.apis import Apis
from rollouthub.models.preflight import ParticularModel, preflight
from rollouthub.models.quota import MeteredModel
from rollouthub.models.resolve import choose_lane, find_endpoint, open_lane
from rollouthub.rollout import Usage
from tests.models.openai_calls import KEYS, lane_to, responding, streamed
from tests.models.openai_server import (
    MODEL,
    OpenAIServer,
    call_item,
    message_item,
    reasoning_item,
    response,
)
from tests.models.servers import DONE, Script, ask, body, chunk, hangs_up, raw_server, streaming

ADD = Tool(name="add", description="Add.", input_schema={"type": "object", "properties": {"a": {"type": "integer"}}})


async def test_a_conversation_of_the_responses_api() -> None:
    """Pictures, tools, calls and limits are written as the package's types have them, and nothing is stored."""
    picture = Media(digest="sha256:" + "1" * 64, mime_type="image/png")
    first = [reasoning_item("sealed", "hm"), call_item("add", '{"a": 1}')]
    server = OpenAIServer(lambda body: first if len(body["input"]) == 2 else "2")
    messages = [system("Be brief."), Message(role="user", content=(picture,))]
    media, sampling = (
        {picture.digest: b"png"},
        Sampling(temperature=0.5, max_tokens=9, extra={"reasoning": {"effort": "low"}}),
    )
    async with server.serve() as url, lane_to(url, api="responses", price_prompt=1e6, price_output=2e6) as model:
        request = ask(*messages, tools=[ADD], media=media, sampling=sampling)
        called = await model.generate(request)
        answer = Message(role="tool", content="2", tool_call_id="call_0")
        said = await model.generate(replace(request, messages=[*messages, called.message, answer]))
    (request,) = called.message.tool_requests
    assert (request.id, request.name, request.arguments) == ("call_0", "add", '{"a": 1}')
    assert (called.message.reasoning, called.finish_reason, called.response_id) == ("hm", "tool_calls", "resp_1")
    assert called.usage == Usage(prompt_tokens=40, output_tokens=8, cached_tokens=30, reasoning_tokens=5)
    assert called.cost == 40 * 1 + 8 * 2
    assert (said.message.text, said.finish_reason, said.message.items) == ("2", "stop", None)
    (path, first_body), (_, second_body) = server.asked
    assert path == "/v1/responses"
    assert (first_body["store"], first_body["include"]) == (False, ["reasoning.encrypted_content"])
    assert (first_body["temperature"], first_body["max_output_tokens"], first_body["reasoning"]) == (
        0.5,
        9,
        {"effort": "low"},
    )
    assert first_body["input"][1]["content"][0]["image_url"] == "data:image/png;base64,cG5n"
    assert second_body["input"][2:4] == first
    assert second_body["input"][4] == {"type": "function_call_output", "call_id": "call_0", "output": "2"}


INTERLEAVED = [
    reasoning_item("one", number=1),
    call_item("add", '{"a":1}', 1),
    reasoning_item("two \U0001f512", "and\nso", number=2),
    call_item("add", '{"a":2}', 2),
    message_item("done", 3),
]


@pytest.mark.parametrize("output", [[message_item("hello")], INTERLEAVED], ids=["words", "reasoning and calls"])
async def test_a_streamed_response_is_the_unstreamed_one_in_pieces(output: list[dict[str, Any]]) -> None:
    server = OpenAIServer(lambda body: output)
    async with server.serve() as url, lane_to(url, api="responses") as model:
        whole = await model.generate(ask())
        reply, pieces = await streamed(model)
    assert reply == whole
    assert "".join(piece.text for piece in pieces) == whole.message.text
    assert "".join(piece.reasoning for piece in pieces) == (whole.message.reasoning or "")
    calls: dict[int, list[str]] = {}
    for tool in (tool for piece in pieces for tool in piece.tools):
        calls.setdefault(tool.index, []).append(tool.arguments)
    assert ["".join(parts) for parts in calls.values()] == [call.arguments for call in whole.message.tool_requests]
    assert len(pieces) > 1


ENDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "cut": ({"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "hi", "length"),
    "filtered": ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "hi", "content_filter"),
    "refused": (
        {"output": [{**message_item(""), "content": [{"type": "refusal", "refusal": "no"}]}]},
        "no",
        "stop",
    ),
}


@pytest.mark.parametrize(("fields", "text", "reason"), ENDS.values(), ids=list(ENDS))
async def test_how_a_response_ended_is_told_as_chat_tells_it(fields: dict[str, Any], text: str, reason: str) -> None:
    whole = response(**{"output": [message_item("hi")], **fields})
    server = OpenAIServer(lambda body: whole)
    async with server.serve() as url, lane_to(url, api="responses") as model:
        reply = await model.generate(ask())
    assert (reply.message.text, reply.finish_reason) == (text, reason)


def failed(code: str, message: str) -> dict[str, Any]:
    return response([], status="failed", error={"code": code, "message": message})


BAD: dict[str, tuple[Any, type[ModelError], int | None, bool]] = {
    "a failure of the server's": (failed("server_error", "boom"), ModelError, 500, True),
    "too much": (failed("rate_limit_exceeded", "slow"), ModelError, 429, True),
    "a failure of the prompt's": (failed("invalid_prompt", "no"), ModelError, 400, False),
    "a context limit": (
        {
            "error": {"message": "Your input exceeds the context window", "code": "context_length_exceeded"},
            "status": 400,
        },
        ContextLimitError,
        400,
        False,
    ),
    "not over": (response([], status="in_progress"), ModelError, 200, True),
    "no output": ({"id": "resp"}, ModelError, 200, True),
    "output in words": ({"output": "none"}, ModelError, 200, True),
    "numbers as items": ({"output": [1, 2]}, ModelError, 200, True),
    "a number for text": ({"output": [{"type": "message", "content": [{"text": 7}]}]}, ModelError, 200, True),
    "a hundred thousand values": ({"output": [{"type": "x", "v": [0] * 100_000}]}, OverlongAnswer, 200, False),
    "too many calls": ({"output": [call_item("f", "{}")] * 1001}, OverlongAnswer, 200, False),
}


@pytest.mark.parametrize(("answer", "kind", "status", "retryable"), BAD.values(), ids=list(BAD))
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
async def test_what_is_no_answer_fails_as_on_other_lanes(
    answer: Any, kind: type[ModelError], status: int | None, retryable: bool, is_streamed: bool
) -> None:
    if answer.get("object") == "response":
        serve = OpenAIServer(lambda asked: answer).serve()
    else:
        serve = responding(body(dict(answer), answer["status"] if isinstance(answer.get("status"), int) else 200))
    async with serve as url, lane_to(url, api="responses", max_tries=1) as model:
        with pytest.raises(ModelError) as caught:
            await (streamed(model) if is_streamed else model.generate(ask()))
    assert (type(caught.value), caught.value.status, caught.value.retryable) == (kind, status, retryable)
    assert "hush" not in str(caught.value)


async def test_an_answer_without_an_end_is_not_read_for_ever() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        while True:
            await stream.write(b" " * 2**20)

    async with responding(endless) as url, lane_to(url, api="responses", max_tries=1) as model:
        with anyio.fail_after(30), pytest.raises(ModelError, match="longer than"):
            await model.generate(ask())


async def test_a_refusal_without_an_end_is_cut_off() -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(status=400)
        await stream.prepare(request)
        while True:
            await stream.write(b"no! " * 2**12)

    async with responding(endless) as url, lane_to(url, api="responses", max_tries=1) as model:
        with anyio.fail_after(30), pytest.raises(ModelError, match="HTTP 400") as caught:
            await model.generate(ask())
    assert len(str(caught.value)) < 1000


async def test_a_redirect_gets_no_key() -> None:
    elsewhere = Script(body({}))
    async with elsewhere.serve() as other:
        moved = body({}, 307, {"Location": f"{other}/responses"})
        async with responding(moved) as url, lane_to(url, api="responses", max_tries=1) as model:
            with pytest.raises(ModelError, match="redirect"):
                await model.generate(ask())
    assert elsewhere.headers == []


async def test_the_environment_changes_neither_the_address_nor_the_headers(monkeypatch: pytest.MonkeyPatch) -> None:
    server = OpenAIServer()
    async with raw_server(b"") as nowhere, server.serve() as url:
        for name, value in {
            "OPENAI_BASE_URL": nowhere,
            "OPENAI_ORG_ID": "org-of-another",
            "OPENAI_PROJECT_ID": "proj-of-another",
            "OPENAI_ADMIN_KEY": "sk-admin-of-another",
            "OPENAI_API_KEY": "sk-of-another",
            "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer of-another\nX-Also: this",
            "HTTP_PROXY": nowhere,
            "ALL_PROXY": nowhere,
        }.items():
            monkeypatch.setenv(name, value)
        async with lane_to(url, api="responses") as model:
            await model.generate(ask())
    (headers,) = server.headers
    assert headers["authorization"] == "Bearer hush-hush-hush"
    ours = ("host", "accept", "accept-encoding", "connection", "user-agent", "authorization")
    assert set(headers) <= {*ours, "content-type", "content-length"}
    assert headers["user-agent"] == "rollouthub"


async def test_a_server_without_a_key_gets_none() -> None:
    server = OpenAIServer()
    config = ModelConfig(name=f"openai/{MODEL}", lane="openai", api="responses")
    async with server.serve() as url, open_lane(config, url, Credentials()) as model:
        await model.generate(ask())
    assert "authorization" not in server.headers[0]


def slow(asked: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"message": "slow"}, "status": 429}


async def test_rate_limits_are_read_from_answers_and_refusals() -> None:
    limits = {
        "x-ratelimit-remaining-requests": "7",
        "x-ratelimit-limit-requests": "10",
        "x-ratelimit-reset-requests": "6s",
    }
    server = OpenAIServer(headers=limits)
    async with server.serve() as url, lane_to(url, api="responses", max_tries=1) as model:
        assert isinstance(model, MeteredModel)
        await model.generate(ask())
        assert model.quota is not None
        assert model.quota.requests is not None
        assert model.quota.requests.left == 7
        server.say = slow
        model.quota = None
        with pytest.raises(ModelError):
            await model.generate(ask())
        assert model.quota is not None


CHOICES: dict[str, tuple[dict[str, Any], str]] = {
    "OpenAI's own service": ({}, "litellm"),
    "a model of Responses alone": ({"name": "openai/gpt-5-codex"}, "openai"),
    "an API of one's choice": ({"api": "chat"}, "openai"),
    "by name": ({"lane": "openai"}, "openai"),
    "another server": ({"base_url": "http://127.0.0.1:1/v1"}, "direct"),
    "another server with such a name": ({"name": "openai/gpt-5-codex", "base_url": "http://127.0.0.1:1/v1"}, "direct"),
}


@pytest.mark.parametrize(("given", "lane"), CHOICES.values(), ids=list(CHOICES))
def test_which_models_take_the_lane(given: dict[str, Any], lane: str) -> None:
    config = ModelConfig.model_validate({"name": "openai/gpt-4o-mini", **given})
    assert choose_lane(config, find_endpoint(config, KEYS)) == lane


def test_a_bare_name_on_the_lane_is_openais() -> None:
    endpoint = find_endpoint(ModelConfig(name="gpt-9", lane="openai"), KEYS)
    assert endpoint is not None
    assert (endpoint.served_name, endpoint.base_url) == ("gpt-9", "https://api.openai.com/v1")


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "another provider": ({"name": "anthropic/claude", "lane": "openai"}, "cannot carry"),
    "an API on another lane": ({"lane": "litellm", "api": "chat"}, "leave one of them out"),
}


@pytest.mark.parametrize(("given", "words"), REFUSED.values(), ids=list(REFUSED))
def test_what_the_lane_cannot_carry_is_refused(given: dict[str, Any], words: str) -> None:
    config = ModelConfig.model_validate({"name": "openai/gpt-4o-mini", **given})
    with pytest.raises(ConfigError, match=words):
        choose_lane(config, find_endpoint(config, KEYS))


async def test_the_api_follows_what_a_call_asks_for() -> None:
    """At OpenAI's own service the default is Responses, but for what Chat Completions alone has."""
    config = ModelConfig(name="openai/gpt-4o-mini", lane="openai")
    endpoint = find_endpoint(config, KEYS)
    assert endpoint is not None
    apis = Apis(config, endpoint, None)
    found = [apis.of(sampling).api for sampling in (Sampling(), Sampling(seed=1), Sampling(stop=("END",)))]
    assert found == ["responses", "chat", "chat"]
    elsewhere = replace(endpoint, base_url="http://127.0.0.1:1/v1")
    assert Apis(config, elsewhere, None).of(Sampling()).api == "chat"


@pytest.mark.parametrize("sampling", [Sampling(seed=1), Sampling(stop=("END",)), Sampling(extra={"store": True})])
async def test_settings_that_responses_lacks_are_refused_before_a_run(sampling: Sampling) -> None:
    async with lane_to("http://127.0.0.1:1/v1", api="responses") as model:
        assert isinstance(model, ParticularModel)
        with pytest.raises(ConfigError):
            await model.check_sampling(sampling)
    if not sampling.extra:
        with pytest.raises(ConfigError, match="--api chat"):
            async with lane_to("http://127.0.0.1:1/v1", api="responses", sampling=sampling):
                pass


async def test_sounds_are_refused_by_name() -> None:
    sound = Media(digest="sha256:" + "2" * 64, mime_type="audio/wav")
    async with lane_to("http://127.0.0.1:1/v1", api="responses") as model:
        with pytest.raises(ModelError, match="audio/wav"):
            await model.generate(ask(Message(role="user", content=(sound,)), media={sound.digest: b"x"}))


async def test_the_servers_models_are_checked_before_a_run() -> None:
    server = OpenAIServer()
    async with server.serve() as url:
        async with lane_to(url) as model:
            await preflight(model)
        async with open_lane(ModelConfig(name="openai/gpt-other", lane="openai"), url, KEYS) as model:
            with pytest.raises(ConfigError, match="gpt-test"):
                await preflight(model)


def call_piece(**function: Any) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": function.pop("id", None), "function": function}]}


STREAMS: dict[str, Any] = {
    "words": streaming(chunk({"content": "he"}), chunk({"content": "llo"}, "stop"), DONE),
    "a call": streaming(
        chunk(call_piece(id="c", name="add", arguments="")),
        chunk(call_piece(arguments='{"a": 1}'), "tool_calls"),
        DONE,
    ),
    "no end": streaming(chunk({"content": "he"}, "stop")),
    "an error": streaming(chunk({"content": "he"}), {"error": {"message": "boom", "code": 500}}),
    "a hang-up": hangs_up,
    "not streamed": body({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}),
}


@pytest.mark.parametrize("handler", STREAMS.values(), ids=list(STREAMS))
async def test_streamed_chat_is_what_the_direct_lane_makes_of_it(handler: Any) -> None:
    found: list[Any] = []
    for lane in ("direct", "openai"):
        async with Script(handler).serve() as url:
            config = ModelConfig.model_validate({"name": f"openai/{MODEL}", "lane": lane, "max_tries": 2})
            async with open_lane(config, url, KEYS) as model:
                try:
                    found.append(await streamed(model))
                except ModelError as error:
                    found.append((type(error), error.status, error.retryable))
    direct, openai = found
    assert openai == direct


async def test_a_listener_that_fails_is_told_apart_from_the_model() -> None:
    async def write(delta: Delta) -> None:
        raise LookupError("mine")

    server = OpenAIServer()
    async with server.serve() as url, lane_to(url, api="responses") as model:
        with pytest.raises(LookupError, match="mine"):
            await model.generate(ask(stream=ReplyStream(write)))
    assert len(server.asked) == 1


async def test_a_silent_server_and_a_cancelled_call_end_in_time() -> None:
    asked = anyio.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with responding(silent) as url, lane_to(url, api="responses", max_tries=1) as model:
        with anyio.fail_after(5), pytest.raises(ModelError, match="no answer within"):
            await model.generate(ask(timeout_seconds=0.2))
        asked = anyio.Event()
        with anyio.fail_after(5):
            async with anyio.create_task_group() as calls:
                calls.start_soon(model.generate, ask())
                await asked.wait()
                calls.cancel_scope.cancel()
