"""The direct lane over real HTTP: what it sends, what it reads, and how it fails."""

import gzip
import logging
from typing import Any

import pytest
from mcp_types import Tool

from rollouthub import Media, Message, ModelError, Sampling
from rollouthub.errors import ContextLimitError
from rollouthub.messages import assistant, user
from rollouthub.rollout import Usage
from rollouthub.values import Float32s, Int32s
from tests.models.servers import Script, ask, body, direct, mock_server, raw_server, say, text

CALCULATE = Tool(
    name="calculate",
    description="Evaluate.",
    input_schema={"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
)


BOMB = gzip.compress(b" " * (65 * 2**20))
"""65 MiB in 64 KiB."""


def tokens(ids: list[int], logprobs: list[float], **message: Any) -> dict[str, Any]:
    """A choice with ids and logprobs."""
    content = [{"token": "t", "logprob": value, "bytes": [1], "top_logprobs": []} for value in logprobs]
    said = {"role": "assistant", "content": "x", **message}
    return {"message": said, "finish_reason": "stop", "token_ids": ids, "logprobs": {"content": content}}


async def test_every_turn_has_as_many_logprobs_as_ids_and_extends_the_turn_before() -> None:
    conversation = [user("What is 12 * (3 + 4)?")]
    known = Int32s()
    async with mock_server() as url, direct(url) as model:
        for answer in ("84", None):
            reply = await model.generate(ask(*conversation, tools=[CALCULATE]))
            assert reply.prompt_token_ids is not None
            assert reply.output_token_ids is not None
            assert reply.output_logprobs is not None
            assert len(reply.output_token_ids) == len(reply.output_logprobs) == reply.usage.output_tokens > 0
            assert len(reply.prompt_token_ids) == reply.usage.prompt_tokens
            assert reply.prompt_token_ids.startswith(known)
            known = reply.prompt_token_ids + reply.output_token_ids
            conversation.append(reply.message)
            if answer is not None:
                (request,) = reply.message.tool_requests
                assert request.arguments == '{"expression":"12 * (3 + 4)"}'
                conversation.append(Message(role="tool", content=answer, tool_call_id=request.id))
    assert conversation[-1] == assistant("84")


async def test_a_server_of_vllm_is_asked_for_ids_and_logprobs() -> None:
    script = Script(say())
    async with script.serve() as url, direct(url) as model:
        await model.generate(ask(session="r1"))
    (asked,) = script.asked
    assert asked == {
        "model": "served",
        "messages": [{"role": "user", "content": "What is 2 + 3?"}],
        "logprobs": True,
        "return_token_ids": True,
    }
    assert script.headers[0]["X-Session-ID"] == "r1"


async def test_another_server_of_the_wire_is_sent_no_unknown_field() -> None:
    script = Script(say())
    async with script.serve() as url, direct(url, is_vllm=False) as model:
        await model.generate(ask(Message(role="assistant", content="4", reasoning="hm"), session="r1"))
    assert script.asked == [{"model": "served", "messages": [{"role": "assistant", "content": "4"}]}]
    assert "X-Session-ID" not in script.headers[0]


async def test_ids_are_kept_from_any_server_that_gives_them() -> None:
    choices = [tokens([5, 6], [-0.5, -0.25])]
    script = Script(body({"choices": choices, "prompt_token_ids": [1, 2, 3]}))
    async with script.serve() as url, direct(url, is_vllm=False) as model:
        reply = await model.generate(ask())
    assert reply.prompt_token_ids == Int32s([1, 2, 3])
    assert reply.output_token_ids == Int32s([5, 6])
    assert reply.output_logprobs == Float32s([-0.5, -0.25])
    assert reply.usage == Usage(prompt_tokens=3, output_tokens=2)


async def test_ids_are_never_invented() -> None:
    async with Script(say("four")).serve() as url, direct(url) as model:
        reply = await model.generate(ask())
    assert (reply.prompt_token_ids, reply.output_token_ids, reply.output_logprobs) == (None, None, None)
    assert reply.usage == Usage()


async def test_logprobs_that_do_not_match_the_ids_are_dropped_and_it_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with Script(body({"choices": [tokens([5, 6, 7], [-0.5])]})).serve() as url, direct(url) as model:
        for _ in range(2):
            reply = await model.generate(ask())
            assert reply.output_token_ids == Int32s([5, 6, 7])
            assert reply.output_logprobs is None
    assert len([record for record in caplog.records if "logprobs are dropped" in record.message]) == 1


async def test_sampling_is_sent_and_the_request_wins_over_the_configuration() -> None:
    script = Script(say())
    base = Sampling(temperature=0.5, max_tokens=10, extra={"top_k": 3})
    ours = Sampling(temperature=0.0, top_p=0.9, stop=("END",), seed=7, extra={"min_p": 0.1})
    async with script.serve() as url, direct(url, is_vllm=False, sampling=base) as model:
        await model.generate(ask(sampling=ours))
    (asked,) = script.asked
    del asked["messages"], asked["model"]
    assert asked == {
        "temperature": 0.0,
        "max_tokens": 10,
        "top_p": 0.9,
        "stop": ["END"],
        "seed": 7,
        "top_k": 3,
        "min_p": 0.1,
    }


async def test_fields_that_are_the_hubs_own_are_refused() -> None:
    async with Script(say()).serve() as url, direct(url) as model:
        with pytest.raises(ModelError, match="'stream'") as caught:
            await model.generate(ask(sampling=Sampling(extra={"stream": True})))
    assert not caught.value.retryable


async def test_reads_calls_reasoning_usage_and_policy_version() -> None:
    calls = [
        {"id": "a", "type": "function", "function": {"name": "add", "arguments": '{"a": '}},
        {"id": None, "function": {"name": "add", "arguments": {"a": 1}}},
        {"function": {"name": None}},
    ]
    answer = {
        "choices": [
            {
                "message": {"content": None, "tool_calls": calls, "reasoning_content": "hm", "novel": [1]},
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 4,
            "prompt_tokens_details": {"cached_tokens": 8},
            "completion_tokens_details": {"reasoning_tokens": 2},
        },
        "weight_version": "12",
    }
    async with Script(body(answer)).serve() as url, direct(url, price_prompt=1.0, price_output=2.0) as model:
        reply = await model.generate(ask())
    requests = reply.message.tool_requests
    assert [(request.id, request.name, request.arguments) for request in requests] == [
        ("a", "add", '{"a": '),
        ("call-1-1", "add", '{"a":1}'),
        ("call-1-2", "", ""),
    ]
    assert (reply.message.text, reply.message.reasoning) == ("", "hm")
    assert reply.usage == Usage(prompt_tokens=9, output_tokens=4, cached_tokens=8, reasoning_tokens=2)
    assert reply.cost == pytest.approx(17e-6)
    assert (reply.policy_version, reply.finish_reason) == (12, "tool_calls")


async def test_the_policy_version_of_the_header_wins() -> None:
    answer = {"choices": [tokens([1], [-1.0])], "weight_version": 3}
    async with Script(body(answer, headers={"X-Policy-Version": "5"})).serve() as url, direct(url) as model:
        assert (await model.generate(ask())).policy_version == 5


async def test_a_version_that_is_no_number_is_left_out() -> None:
    for version in ("default", "9999999999", 2**63, -1):
        async with Script(say(weight_version=version)).serve() as url, direct(url) as model:
            assert (await model.generate(ask())).policy_version is None


async def test_pictures_reach_the_server() -> None:
    script = Script(say())
    picture = Media(digest="sha256:" + "1" * 64, mime_type="image/png")
    async with script.serve() as url, direct(url) as model:
        await model.generate(ask(Message(role="user", content=(picture,)), media={picture.digest: b"png"}))
    assert script.asked[0]["messages"][0]["content"][0]["image_url"] == {"url": "data:image/png;base64,cG5n"}


async def test_a_conversation_of_megabytes_is_sent() -> None:
    script = Script(say())
    async with script.serve() as url, direct(url) as model:
        await model.generate(ask(user("x" * 3_000_000)))
    assert len(script.asked[0]["messages"][0]["content"]) == 3_000_000


@pytest.mark.parametrize(
    "message",
    [
        {"error": {"message": "This model's maximum context length is 2048 tokens. However, …", "code": 400}},
        {"error": {"message": "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)", "code": 400}},
        {"error": {"message": "Please reduce the length", "code": "context_length_exceeded"}},
        {"message": "Input length (900 tokens) exceeds the maximum allowed length (512 tokens). Use a shorter input"},
        {"message": "Request prompt exceeds the KV memory budget: input_len=900."},
        {"object": "error", "message": "The decoder prompt is longer than the maximum model length of 9."},
        {"detail": "irrelevant", "error": "prompt is too long: 9 tokens > 8 maximum"},
    ],
)
async def test_a_conversation_that_does_not_fit_is_typed(message: dict[str, Any]) -> None:
    script = Script(body(message, status=400))
    async with script.serve() as url, direct(url) as model:
        with pytest.raises(ContextLimitError):
            await model.generate(ask())
    assert len(script.asked) == 1


async def test_other_refusals_are_final_and_carry_the_servers_words_trimmed() -> None:
    script = Script(body({"error": {"message": "no such thing " * 100, "code": 422}}, status=422))
    async with script.serve() as url, direct(url) as model:
        with pytest.raises(ModelError, match="HTTP 422: no such thing") as caught:
            await model.generate(ask())
    assert (caught.value.status, caught.value.retryable, len(script.asked)) == (422, False, 1)
    assert len(str(caught.value)) < 700


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_named_but_not_shown(status: int) -> None:
    echo = body({"error": {"message": "Incorrect API key provided: hush-hush-hush"}}, status=status)
    async with Script(echo).serve() as url:
        masked = direct(url, api_key="hush-hush-hush", redact=lambda words: words.replace("hush-hush-hush", "…"))
        async with masked as model:
            with pytest.raises(ModelError, match="check the key in HOSTED_VLLM_API_KEY") as caught:
                await model.generate(ask())
            assert "hush" not in repr(model) + repr(model.endpoint)
    assert "hush" not in str(caught.value)
    assert (caught.value.status, caught.value.retryable) == (status, False)


async def test_a_missing_key_is_said_to_be_missing() -> None:
    async with mock_server(api_key="hush-hush") as url, direct(url) as model:
        with pytest.raises(ModelError, match="no key was sent; set HOSTED_VLLM_API_KEY"):
            await model.generate(ask())


async def test_the_key_opens_the_door() -> None:
    async with mock_server("mock/say?text=in", api_key="hush-hush") as url, direct(url, api_key="hush-hush") as model:
        assert (await model.generate(ask())).message == assistant("in")


async def test_a_redirect_is_not_followed() -> None:
    script = Script(body({}, status=307, headers={"Location": "http://elsewhere/"}))
    async with script.serve() as url, direct(url, api_key="hush-hush") as model:
        with pytest.raises(ModelError, match="a redirect to 'http://elsewhere/'") as caught:
            await model.generate(ask())
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (text("<html>busy</html>"), "not a chat completion"),
        (text(""), "not a chat completion"),
        (body([]), "not a chat completion"),
        (body({"choices": "none"}), "not a chat completion"),
        (body({"choices": [{"message": {"content": 7}}]}), "not a chat completion"),
        (body({"choices": [{}]}), "not a chat completion"),
        (text('{"choices":' + "[" * 100_000), "not a chat completion"),
        (text('{"choices": [{"message": {"content": "\\ud83d"}}]}'), "not a chat completion"),
        (body({}), "no choices"),
        (body({"choices": [], "error": {"message": "engine dead"}}), "no choices: engine dead"),
        (body({"choices": [tokens([2**40], [-1.0])]}), "does not fit 32 bits"),
        (body({"choices": [tokens([1], [-1e300])]}), "logprob that does not fit 32 bits"),
        *((say(usage={"prompt_tokens": count}), "usage.prompt_tokens") for count in (2**63, 2**31, -1, True, "7", 1.5)),
        (say(usage={"completion_tokens": 2**64}), "usage.completion_tokens"),
        (say(usage={"prompt_tokens_details": {"cached_tokens": -1}}), "cached_tokens"),
        (say(usage={"completion_tokens_details": {"reasoning_tokens": 2**63}}), "reasoning_tokens"),
        (say(usage={"cost": -0.5}), "usage.cost"),
        (text('{"choices": [{"message": {}}], "usage": {"prompt_tokens": NaN}}'), "not a chat completion"),
        (body({"choices": [{"message": {"content": "hal"}, "finish_reason": "abort"}]}), "broke off"),
    ],
)
async def test_a_body_that_is_no_answer_is_a_failed_try(answer: Any, problem: str) -> None:
    script = Script(answer)
    async with script.serve() as url, direct(url, max_tries=2) as model:
        with pytest.raises(ModelError, match=problem) as caught:
            await model.generate(ask())
    assert (caught.value.retryable, len(script.asked)) == (True, 2)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(BOMB), BOMB),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + (b"100000\r\n" + b" " * 2**20 + b"\r\n") * 65,
    ],
)
async def test_an_oversized_body_is_refused_however_it_is_framed(head: bytes) -> None:
    async with raw_server(head) as url, direct(url) as model:
        with pytest.raises(ModelError, match="larger than 64 MiB") as caught:
            await model.generate(ask())
    assert not caught.value.retryable


async def test_a_key_over_plain_http_to_another_machine_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    async with direct("http://10.0.0.1:8000/v1", api_key="hush-hush"):
        pass
    (record,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "unencrypted" in record.message
    assert "hush" not in record.message
