"""Both lanes against the same servers: the same results, errors and wire."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from aiohttp import web
from mcp_types import Tool
from multidict import CIMultiDict

from rollouthub import Media, Message, ModelError, ModelReply, ModelRequest, Sampling
from rollouthub.errors import ContextLimitError
from rollouthub.generation import Model
from rollouthub.messages import user
from rollouthub.models.config import Lane, ModelConfig
from rollouthub.models.credentials import Credentials
from rollouthub.models.resolve import open_lane
from rollouthub.values import Float32s, Int32s
from tests.models.servers import Script, ask, body, mock_server, raw_server, say, text

LANES: tuple[Lane, ...] = ("direct", "litellm", "openai")
NAMES = ("hosted_vllm/served", "openai/served")
KEYS = Credentials({"OPENAI_API_KEY": "hush-hush-hush", "HOSTED_VLLM_API_KEY": "hush-hush-hush"})
CALCULATE = Tool(
    name="calculate",
    description="Evaluate.",
    input_schema={"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
)

Serve = Callable[[], AbstractAsyncContextManager[str]]

# litellm serialises garbage through pydantic, which says so.
pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")


@asynccontextmanager
async def lane_to(url: str, name: str, lane: Lane, **config: Any) -> AsyncGenerator[Model]:
    async with open_lane(ModelConfig(name=name, lane=lane, **config), url, KEYS) as model:
        yield model


async def replies(serve: Serve, name: str, request: ModelRequest, **config: Any) -> list[ModelReply]:
    """What each lane makes of a server of its own."""
    found: list[ModelReply] = []
    for lane in LANES:
        async with serve() as url, lane_to(url, name, lane, **config) as model:
            found.append(await model.generate(request))
    return found


@pytest.mark.parametrize("name", NAMES)
async def test_a_conversation_with_tools_is_the_same(name: str) -> None:
    calls = ask(user("What is 12 * (3 + 4)?"), tools=[CALCULATE])
    first, *others = await replies(mock_server, name, calls)
    assert all(same == first for same in others)
    (request,) = first.message.tool_requests
    answer = Message(role="tool", content="84", tool_call_id=request.id)
    first, *others = await replies(mock_server, name, ask(*calls.messages, first.message, answer, tools=[CALCULATE]))
    assert all(same == first for same in others)
    assert (first.message.text, first.finish_reason) == ("84", "stop")


async def test_token_ids_and_logprobs_are_the_same() -> None:
    direct, *others = await replies(mock_server, "hosted_vllm/served", ask())
    for other in others:
        assert other.output_token_ids is not None
        assert other.output_logprobs is not None
        assert other.prompt_token_ids == direct.prompt_token_ids
        assert (other.output_token_ids, other.output_logprobs) == (direct.output_token_ids, direct.output_logprobs)
        assert len(other.output_token_ids) == len(other.output_logprobs) == other.usage.output_tokens


def choice(**more: Any) -> dict[str, Any]:
    return {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}, **more}


def called(*arguments: str) -> dict[str, Any]:
    calls = [
        {"id": f"c{place}", "type": "function", "function": {"name": "add", "arguments": words}}
        for place, words in enumerate(arguments)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": calls}
    return {"choices": [choice(message=message, finish_reason="tool_calls")]}


USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 8},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
LOGPROBS = [{"token": "t", "logprob": -0.5, "bytes": [1], "top_logprobs": []}]
ANSWERS: dict[str, dict[str, Any]] = {
    "plain": {"choices": [choice()]},
    "usage": {"choices": [choice()], "usage": USAGE},
    "cost": {"choices": [choice()], "usage": USAGE | {"cost": 0.25}},
    "malformed arguments": called('{"a": ', "[1]", "", "nonsense"),
    "ids": {"choices": [choice(token_ids=[5], logprobs={"content": LOGPROBS})], "prompt_token_ids": [1, 2]},
    "ids but no logprobs": {"choices": [choice(token_ids=[5, 6])], "prompt_token_ids": [1, 2]},
    "too few logprobs": {"choices": [choice(token_ids=[5, 6], logprobs={"content": LOGPROBS})]},
    "reasoning": {"choices": [choice(message={"role": "assistant", "content": "hi", "reasoning": "hm"})]},
    "older reasoning": {"choices": [choice(message={"role": "assistant", "content": "", "reasoning_content": "hm"})]},
    "refusal": {"choices": [choice(message={"role": "assistant", "content": None, "refusal": "no"})]},
    "cut": {"choices": [choice(finish_reason="length")]},
    "filtered": {"choices": [choice(finish_reason="content_filter")]},
    "a reason of its own": {"choices": [choice(finish_reason="repetition")]},
    "policy version": {"choices": [choice()], "weight_version": 7},
    "policy version in words": {"choices": [choice()], "weight_version": "default"},
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
async def test_answers_are_read_the_same(name: str, answer: dict[str, Any]) -> None:
    direct, litellm, openai = await replies(Script(body(answer)).serve, name, ask())
    assert litellm == direct
    assert openai == direct


@pytest.mark.parametrize("name", NAMES)
async def test_what_litellm_reads_its_own_way_stays_known(name: str) -> None:
    """The list in docs/models.md: whoever finds one of these gone may shorten it."""
    answer = {"choices": [choice(message={"role": "assistant", "content": "<think>hm</think>hi"})]}
    direct, litellm, openai = await replies(Script(body(answer)).serve, name, ask())
    assert openai == direct
    assert (direct.message.text, direct.message.reasoning) == ("<think>hm</think>hi", None)
    assert (litellm.message.text, litellm.message.reasoning) == ("hi", "hm")
    nameless = called("{}")["choices"][0] | {"finish_reason": "stop"}
    del nameless["message"]["tool_calls"][0]["id"]
    direct, litellm, openai = await replies(Script(body({"choices": [nameless]})).serve, name, ask())
    assert openai == direct
    assert (direct.message.tool_requests[0].id, direct.finish_reason) == ("call-1-0", "stop")
    assert litellm.message.tool_requests[0].id != ""
    assert litellm.finish_reason == "tool_calls"


async def test_the_policy_version_of_the_header_wins() -> None:
    answer = body(ANSWERS["policy version"], headers={"X-Policy-Version": "5"})
    versions = [reply.policy_version for reply in await replies(Script(answer).serve, "hosted_vllm/served", ask())]
    assert versions == [5, 5, 5]


SAMPLINGS: dict[str, Sampling] = {
    "none": Sampling(),
    "all": Sampling(temperature=0.0, top_p=0.9, max_tokens=5, stop=("END",), seed=7),
    "of the wire": Sampling(extra={"presence_penalty": 0.5, "tool_choice": "required", "logprobs": False}),
    "of the server": Sampling(extra={"top_k": 3, "min_p": 0.1, "chat_template_kwargs": {"enable_thinking": False}}),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=list(SAMPLINGS))
async def test_requests_are_sent_the_same(name: str, sampling: Sampling) -> None:
    script = Script(say())
    picture = Media(digest="sha256:" + "1" * 64, mime_type="image/png")
    call = called('{"a": ')["choices"][0]["message"]["tool_calls"][0]
    messages = (
        Message(role="system", content="Be brief."),
        Message(role="user", content=(picture,)),
        Message.model_validate(
            {
                "role": "assistant",
                "content": "",
                "reasoning": "hm",
                "tool_requests": [{"id": "c0", "name": "add", "arguments": call["function"]["arguments"]}],
            }
        ),
        Message(role="tool", content="84", tool_call_id="c0"),
    )
    request = ask(*messages, tools=[CALCULATE], sampling=sampling, media={picture.digest: b"png"}, session="r1")
    await replies(script.serve, name, request)
    for asked in script.asked:
        # Absent and null are the same to a server; litellm leaves it out.
        assert asked["messages"][2].pop("content", None) is None
    direct, litellm, openai = script.asked
    assert litellm == direct
    assert openai == direct
    sessions = [CIMultiDict(headers).get("X-Session-ID") for headers in script.headers]
    assert sessions == (["r1" if name.startswith("hosted_vllm") else None] * len(LANES))
    assert {CIMultiDict(headers)["Authorization"] for headers in script.headers} == {"Bearer hush-hush-hush"}


async def never(request: web.Request) -> web.StreamResponse:
    await anyio.sleep_forever()
    raise AssertionError


@asynccontextmanager
async def nobody() -> AsyncGenerator[str]:
    async with raw_server(b"") as url:
        pass
    yield url


def refused(status: int, message: str = "no such thing", **more: Any) -> Serve:
    return Script(body({"error": {"message": message, **more}}, status)).serve


def answered(words: str) -> Serve:
    return Script(text(words, content_type="application/json")).serve


BAD: dict[str, tuple[Serve, type[ModelError], int | None, bool]] = {
    **{str(status): (refused(status), ModelError, status, False) for status in (400, 401, 403, 404, 405, 413, 422)},
    **{str(status): (refused(status), ModelError, status, True) for status in (408, 409, 429, 500, 502, 503, 529)},
    "context limit": (refused(400, "maximum context length is 9 tokens"), ContextLimitError, 400, False),
    "context limit by code": (refused(400, code="context_length_exceeded"), ContextLimitError, 400, False),
    "no money": (refused(429, code="insufficient_quota"), ModelError, 429, False),
    "a web page": (Script(text("<html>busy</html>")).serve, ModelError, 200, True),
    "nothing": (answered(""), ModelError, 200, True),
    "broken JSON": (answered('{"choices": ['), ModelError, 200, True),
    "a list": (answered("[]"), ModelError, 200, True),
    "no choices": (answered("{}"), ModelError, 200, True),
    "an error without a code": (answered('{"choices": [], "error": {"message": "boom"}}'), ModelError, 200, True),
    "an error in words": (answered('{"error": "boom"}'), ModelError, 200, True),
    "an error of the caller's": (answered('{"error": {"message": "no", "code": 400}}'), ModelError, 400, False),
    "an error of the moment": (answered('{"error": {"message": "slow", "code": 429}}'), ModelError, 429, True),
    "an error of the server's": (answered('{"error": {"message": "boom", "code": 502}}'), ModelError, 502, True),
    "a context limit in an answer": (
        answered('{"error": {"message": "maximum context length is 9 tokens", "code": 400}}'),
        ContextLimitError,
        400,
        False,
    ),
    "choices in words": (answered('{"choices": "none"}'), ModelError, 200, True),
    "no message": (answered('{"choices": [{}]}'), ModelError, 200, True),
    "a number for text": (answered('{"choices": [{"message": {"content": 7}}]}'), ModelError, 200, True),
    "more tokens than there are": (
        answered('{"choices": [{"message": {"content": "a"}}], "usage": {"prompt_tokens": 9223372036854775808}}'),
        ModelError,
        200,
        True,
    ),
    "broken off": (
        answered('{"choices": [{"message": {"content": "a"}, "finish_reason": "abort"}]}'),
        ModelError,
        200,
        True,
    ),
    "a silent server": (Script(never).serve, ModelError, None, True),
    "a dropped connection": (lambda: raw_server(b""), ModelError, None, True),
    "half an answer": (lambda: raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), ModelError, None, True),
    "garbage": (lambda: raw_server(b"garbage\r\n\r\n"), ModelError, None, True),
    "nobody": (nobody, ModelError, None, True),
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("serve", "kind", "status", "retryable"), BAD.values(), ids=list(BAD))
async def test_failures_are_the_same(
    name: str, serve: Serve, kind: type[ModelError], status: int | None, retryable: bool
) -> None:
    timeout_seconds = 0.3 if serve is BAD["a silent server"][0] else 5.0
    for lane in LANES:
        async with serve() as url, lane_to(url, name, lane, max_tries=1) as model:
            with anyio.fail_after(5), pytest.raises(ModelError) as caught:
                await model.generate(ask(timeout_seconds=timeout_seconds))
        error = caught.value
        assert (type(error), error.status, error.retryable) == (kind, status, retryable), lane
        assert "hush" not in str(error)


@pytest.mark.parametrize("name", NAMES)
async def test_a_refusal_is_told_in_the_same_words(name: str) -> None:
    told: list[str] = []
    async with refused(401, "Incorrect API key provided: hush-hush-hush")() as url:
        for lane in LANES:
            async with lane_to(url, name, lane) as model:
                with pytest.raises(ModelError) as caught:
                    await model.generate(ask())
                told.append(str(caught.value))
    assert len(set(told)) == 1
    assert "[redacted]" in told[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES)
async def test_passing_troubles_are_tried_again_and_retry_after_is_waited_for(name: str, lane: Lane) -> None:
    script = Script(body({}, 429, {"Retry-After": "0.05"}), body({}, 503, {"Retry-After": "0"}), say())
    async with script.serve() as url, lane_to(url, name, lane) as model:
        started = anyio.current_time()
        reply = await model.generate(ask())
        assert anyio.current_time() - started >= 0.05
    assert (reply.message.text, reply.retries, len(script.asked)) == ("hi", 2, 3)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES)
async def test_a_retry_after_beyond_the_timeout_fails_at_once(name: str, lane: Lane) -> None:
    script = Script(body({}, 429, {"Retry-After": "3600"}))
    async with script.serve() as url, lane_to(url, name, lane) as model:
        with anyio.fail_after(5), pytest.raises(ModelError, match="429"):
            await model.generate(ask(timeout_seconds=60))
    assert len(script.asked) == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lane", LANES)
async def test_cancelling_a_call_ends_it_at_once(name: str, lane: Lane) -> None:
    asked = anyio.Event()

    async def wait(request: web.Request) -> web.StreamResponse:
        asked.set()
        return await never(request)

    async with Script(wait).serve() as url, lane_to(url, name, lane) as model:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as calls:
                calls.start_soon(model.generate, ask())
                await asked.wait()
                calls.cancel_scope.cancel()


@pytest.mark.parametrize("lane", LANES)
async def test_packed_tokens_are_of_the_same_kind(lane: Lane) -> None:
    async with mock_server() as url, lane_to(url, "hosted_vllm/served", lane) as model:
        reply = await model.generate(ask())
    assert isinstance(reply.prompt_token_ids, Int32s)
    assert isinstance(reply.output_logprobs, Float32s)
