"""Streamed answers over real HTTP: pieces at once, the same whole as unstreamed, and each way a stream may break."""

import json
import logging
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from aiohttp import web
from mcp_types import Tool

from rollouthub import Message, ModelError, Sampling
from rollouthub.errors import ContextLimitError
from rollouthub.messages import Delta, assistant, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct import lane
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.retry import StreamCut
from rollouthub.rollout import Usage
from rollouthub.values import Float32s, Int32s
from tests.models.listening import Listener, hear, streamed
from tests.models.servers import (
    DONE,
    Script,
    ask,
    body,
    chunk,
    direct,
    hangs_up,
    mock_server,
    raw_server,
    say,
    serving,
    streaming,
)

ADD = Tool(name="add", input_schema={"type": "object", "properties": {}})
TURNS: list[dict[str, Any]] = [
    {"content": "Four."},
    {"content": ""},
    {"content": " \n leading, and trailing \n\n"},
    {"content": "naïve 日本語 😀👩‍👩‍👧 \u2028 \x00 \u0085 end"},
    {"content": "data: [DONE]\n\ndata: {}\r\n\r\n: no"},
    {"content": "word " * 400},
    {"content": "yes", "reasoning": "It may\nbe  so. 😀"},
    {"content": "", "reasoning": "only this"},
    {"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": "é" * 50}}]},
    {"tool_calls": [{"name": "add", "arguments": ""}, {"name": "take", "arguments": '{"a": '}]},
    {
        "content": "Both.",
        "reasoning": "hm",
        "tool_calls": [{"name": f"t{place}", "arguments": {"n": place}} for place in range(5)],
    },
]


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A mock that says all of it."""
    (tmp_path / "turns.json").write_text(json.dumps(TURNS))
    return f"mock/script?file={tmp_path}/turns.json"


def conversation(place: int) -> list[Message]:
    """One that the script answers with a certain turn."""
    return [user("Go on."), *(assistant("so") for _ in range(place))]


@pytest.mark.parametrize("is_vllm", [True, False])
async def test_a_streamed_answer_is_exactly_the_unstreamed_one(script: str, is_vllm: bool) -> None:
    async with mock_server(script) as url, direct(url, is_vllm=is_vllm, price_prompt=1.0) as model:
        for place in range(len(TURNS)):
            for most in (None, 1, 2, 30):
                request = ask(*conversation(place), sampling=Sampling(max_tokens=most))
                whole = await model.generate(request)
                reply, listener = await hear(model, request)
                assert reply == whole
                assert None not in {reply.response_id, whole.response_id}
                assert listener.message == whole.message
                assert (whole.output_token_ids is not None) is is_vllm
                assert whole.cost


async def test_a_mock_in_this_process_streams_the_same_pieces(script: str) -> None:
    model = MockModel(ModelConfig(name=script))
    for place in range(len(TURNS)):
        request = ask(*conversation(place))
        reply, listener = await hear(model, request)
        assert listener.message == reply.message == (await model.generate(request)).message
        assert len(listener.heard) >= len(reply.message.text.split())


def as_stream(text: str) -> bytes:
    events = [chunk({"role": "assistant", "content": ""}), chunk({"content": text}), chunk(finish_reason="stop")]
    return (
        b"".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode() for event in events)
        + b"data: [DONE]\n\n"
    )


@pytest.mark.parametrize("size", [1, 3, 50])
async def test_pieces_of_the_network_are_not_pieces_of_the_answer(size: int) -> None:
    sent = as_stream("é😀日")
    parts = [sent[start : start + size] for start in range(0, len(sent), size)]

    async def breathe(place: int) -> None:
        await anyio.lowlevel.checkpoint()

    async with Script(streaming(*parts, hold=breathe)).serve() as url, direct(url) as model:
        reply, listener = await hear(model, ask())
    assert reply.message == listener.message == assistant("é😀日")


async def test_pieces_are_handed_on_while_the_rest_is_still_to_come() -> None:
    heard = anyio.Event()

    async def note(delta: Delta) -> None:
        heard.set()

    async def hold(place: int) -> None:
        if place == 1:
            await heard.wait()

    events = (chunk({"content": "first"}), chunk({"content": " last"}, "stop"), DONE)
    async with Script(streaming(*events, hold=hold)).serve() as url, direct(url) as model:
        listener = Listener(note)
        with anyio.fail_after(5):
            reply = await model.generate(streamed(ask(), listener))
    assert (reply.message, [delta.text for delta in listener.heard]) == (assistant("first last"), ["first", " last"])


async def test_a_stream_is_asked_for_with_its_usage() -> None:
    script = Script(streaming(chunk({"content": "hi"}, "stop"), DONE))
    async with script.serve() as url, direct(url, is_vllm=False) as model:
        reply, _ = await hear(model, ask())
        with pytest.raises(ModelError, match="'stream_options'"):
            await model.generate(ask(sampling=Sampling(extra={"stream_options": {}})))
    (asked,) = script.asked
    assert (asked["stream"], asked["stream_options"]) == (True, {"include_usage": True})
    assert (reply.usage, reply.output_token_ids, reply.cost) == (Usage(), None, None)


async def test_tokens_and_versions_are_kept_as_the_server_streams_them() -> None:
    entry = {"token": "t", "logprob": -0.5, "bytes": [1], "top_logprobs": []}
    first = {**chunk({"role": "assistant", "content": ""}), "prompt_token_ids": [1, 2]}
    events: tuple[Any, ...] = (
        first,
        chunk({"content": "x"}, token_ids=[5], logprobs={"content": [entry]}),
        chunk({}, "stop", token_ids=[6], logprobs={"content": [entry]}),
        {"choices": [], "usage": {"prompt_tokens": 2, "completion_tokens": 2, "cost": 0.5}, "weight_version": "7"},
        DONE,
    )
    async with Script(streaming(*events)).serve() as url, direct(url) as model:
        reply, _ = await hear(model, ask())
    assert (reply.prompt_token_ids, reply.output_token_ids) == (Int32s([1, 2]), Int32s([5, 6]))
    assert (reply.output_logprobs, reply.policy_version, reply.cost) == (Float32s([-0.5, -0.5]), 7, 0.5)
    assert reply.usage == Usage(prompt_tokens=2, output_tokens=2)


async def test_ids_with_a_hole_are_dropped_and_it_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    events = (chunk({"content": "x"}, "stop", token_ids=[5]), {"usage": {"completion_tokens": 2}}, DONE)
    async with Script(streaming(*events)).serve() as url, direct(url) as model:
        for _ in range(2):
            reply, _ = await hear(model, ask())
            assert (reply.output_token_ids, reply.usage.output_tokens) == (None, 2)
    assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


async def test_a_server_that_does_not_stream_is_read_all_the_same() -> None:
    async with Script(say("hi")).serve() as url, direct(url) as model:
        reply, listener = await hear(model, ask())
    assert (reply.message, listener.heard, listener.stream.has_begun) == (assistant("hi"), [], False)


async def test_a_connection_serves_one_stream_after_another() -> None:
    peers: set[Any] = set()

    async def note(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return await streaming(chunk({"content": "hi"}, "stop"), DONE)(request)

    async with Script(note).serve() as url, direct(url) as model:
        for _ in range(5):
            await hear(model, ask())
    assert len(peers) == 1


# --- streams that break -----------------------------------------------------------------------------------------

ROLE = chunk({"role": "assistant", "content": ""})
BREAKS: dict[str, tuple[tuple[Any, ...], str, int | None]] = {
    "no end": ((), "ended before the answer did", 200),
    "an error": (({"error": {"message": "engine dead"}}, DONE), "engine dead", 200),
    "an error with a status": (
        ({"error": {"message": "engine dead", "code": 503}}, DONE),
        "HTTP 503: engine dead",
        503,
    ),
    "no chunk": (("{broken", DONE), "no chunk of a chat completion", 200),
    "no text": ((b"data: \xff\n\n", DONE), "no chunk of a chat completion", 200),
    "an abort": ((chunk(finish_reason="abort"), DONE), "broke off", 200),
    "too great an id": ((chunk({}, "stop", token_ids=[2**40]), DONE), "does not fit 32 bits", 200),
}


@pytest.mark.parametrize(("events", "problem", "status"), BREAKS.values(), ids=list(BREAKS))
async def test_a_stream_that_breaks_after_it_began_is_final(
    events: tuple[Any, ...], problem: str, status: int | None
) -> None:
    script = Script(streaming(ROLE, chunk({"content": "half"}), *events), say())
    async with script.serve() as url, direct(url) as model:
        listener = Listener()
        with pytest.raises(StreamCut, match=f"{problem}.*; the answer had begun, so it is not tried again") as caught:
            await model.generate(streamed(ask(), listener))
    assert (caught.value.retryable, caught.value.status, len(script.asked)) == (True, status, 1)
    assert listener.message == assistant("half")


@pytest.mark.parametrize(("events", "problem", "status"), BREAKS.values(), ids=list(BREAKS))
async def test_a_stream_that_breaks_before_it_began_is_tried_again(
    events: tuple[Any, ...], problem: str, status: int | None
) -> None:
    script = Script(streaming(ROLE, *events), streaming(ROLE, chunk({"content": "whole"}, "stop"), DONE))
    async with script.serve() as url, direct(url) as model:
        reply, listener = await hear(model, ask())
    assert (reply.message, reply.retries, listener.message) == (assistant("whole"), 1, assistant("whole"))


async def test_a_connection_cut_in_the_middle_is_final() -> None:
    script = Script(hangs_up, say())
    async with script.serve() as url, direct(url) as model:
        with pytest.raises(StreamCut, match=r"the connection failed.*the answer had begun") as caught:
            await hear(model, ask())
    assert (caught.value.status, len(script.asked)) == (None, 1)


async def test_a_connection_cut_before_any_piece_is_tried_again() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nff\r\ndata: {"
    good = as_stream("hi")
    whole = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b" % (len(good), good)
    async with raw_server(head, whole) as url, direct(url) as model:
        reply, _ = await hear(model, ask())
    assert (reply.message, reply.retries) == (assistant("hi"), 1)


async def test_a_stream_that_stalls_ends_with_the_calls_time() -> None:
    done = anyio.Event()

    async def hold(place: int) -> None:
        if place == 1:
            await done.wait()

    script = Script(streaming(chunk({"content": "half"}), DONE, hold=hold))
    async with script.serve() as url, direct(url) as model:
        with anyio.fail_after(20), pytest.raises(StreamCut, match=r"no answer within.*the answer had begun"):
            await model.generate(streamed(ask(timeout_seconds=1), Listener()))
        done.set()


async def test_a_refusal_of_a_stream_is_typed_as_ever() -> None:
    script = Script(body({"error": {"message": "maximum context length is 9 tokens"}}, 400))
    async with script.serve() as url, direct(url) as model:
        with pytest.raises(ContextLimitError):
            await hear(model, ask())
    in_stream = {"error": {"message": "maximum context length is 9 tokens", "code": 400}}
    async with Script(streaming(in_stream, DONE)).serve() as url, direct(url) as model:
        with pytest.raises(ContextLimitError):
            await hear(model, ask())


async def test_passing_troubles_before_a_stream_are_tried_again() -> None:
    script = Script(body({}, 503), body({}, 429), streaming(chunk({"content": "hi"}, "stop"), DONE))
    async with script.serve() as url, direct(url) as model:
        reply, _ = await hear(model, ask())
    assert (reply.message, reply.retries) == (assistant("hi"), 2)


async def test_a_stream_without_an_end_is_cut_at_the_largest_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane, "MAX_ANSWER_BYTES", 2**20)
    large = b": " + b"x" * 2**16 + b"\n"
    async with Script(streaming(*[large] * 20)).serve() as url, direct(url) as model:
        with pytest.raises(ModelError, match="larger than 1 MiB") as caught:
            await hear(model, ask())
    assert not caught.value.retryable


# --- whoever listens --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), TimeoutError("slow"), ValueError("odd")])
async def test_a_listener_that_fails_is_not_the_models_fault(error: Exception) -> None:
    async def fail(delta: Delta) -> None:
        raise error

    script = Script(streaming(chunk({"content": "hi"}, "stop"), DONE))
    async with script.serve() as url, direct(url) as model:
        with pytest.raises(type(error)) as caught:
            await model.generate(streamed(ask(), Listener(fail)))
    assert (caught.value is error, len(script.asked)) == (True, 1)


async def test_a_listener_that_never_takes_a_piece_has_the_calls_time() -> None:
    async def never(delta: Delta) -> None:
        await anyio.sleep_forever()

    script = Script(streaming(chunk({"content": "hi"}, "stop"), DONE))
    async with script.serve() as url, direct(url) as model:
        with anyio.fail_after(20), pytest.raises(ModelError, match="did not read the answer") as caught:
            await model.generate(streamed(ask(timeout_seconds=1), Listener(never)))
    assert (caught.value.retryable, len(script.asked)) == (False, 1)


async def test_a_listener_that_leaves_ends_the_servers_work() -> None:
    gone = anyio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        try:
            return await streaming(*[chunk({"content": "on "})] * 10**6)(request)
        finally:
            gone.set()

    app = web.Application()
    app.router.add_post("/v1/chat/completions", endless)
    async with serving(app) as url, direct(url) as model:
        with anyio.fail_after(5):
            with anyio.CancelScope() as scope:

                async def leave(delta: Delta) -> None:
                    scope.cancel()

                await model.generate(streamed(ask(), Listener(leave)))
            await gone.wait()
