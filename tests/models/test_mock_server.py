"""The mock server: vLLM's shape over HTTP, strict about what it is sent; the same results as in process."""

import itertools
import json
from typing import Any

import aiohttp
import anyio
import pytest
from mcp_types import Tool

from rollouthub import Message, Model, ModelReply, Sampling
from rollouthub.messages import system, user
from rollouthub.models.config import ModelConfig
from rollouthub.models.mock.mock_model import MockModel
from rollouthub.models.mock.mock_server import serve_mock
from tests.models.servers import ask, direct, mock_server

CALCULATE: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "calculate",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}
GOOD: dict[str, Any] = {"model": "served", "messages": [{"role": "user", "content": "What is 2 + 3?"}]}


async def post(url: str, body: Any) -> tuple[int, dict[str, Any], dict[str, str]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with aiohttp.ClientSession() as session, session.post(f"{url}/chat/completions", data=data) as response:
        return response.status, await response.json(), dict(response.headers)


async def events(url: str, body: Any) -> list[dict[str, Any]]:
    """The events of a streamed answer, the final mark checked and left out."""
    async with aiohttp.ClientSession() as session, session.post(f"{url}/chat/completions", json=body) as response:
        assert response.content_type == "text/event-stream"
        lines = [line.removeprefix("data: ") for line in (await response.text()).split("\n\n") if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


async def test_an_answer_has_vllms_shape() -> None:
    async with mock_server() as url:
        status, body, _ = await post(
            url, {**GOOD, "tools": [CALCULATE], "logprobs": True, "return_token_ids": True, "novel": 1}
        )
    (choice,) = body["choices"]
    assert (status, body["object"], body["model"]) == (200, "chat.completion", "served")
    assert choice["message"]["content"] is None
    assert choice["message"]["tool_calls"][0]["function"] == {
        "name": "calculate",
        "arguments": '{"expression":"2 + 3"}',
    }
    assert choice["finish_reason"] == "tool_calls"
    assert len(choice["token_ids"]) == len(choice["logprobs"]["content"]) == body["usage"]["completion_tokens"]
    assert len(body["prompt_token_ids"]) == body["usage"]["prompt_tokens"]
    assert all(entry["logprob"] < 0 for entry in choice["logprobs"]["content"])


async def test_ids_and_logprobs_come_only_if_asked_for() -> None:
    async with mock_server() as url:
        _, body, _ = await post(url, GOOD)
    assert "prompt_token_ids" not in body
    assert "token_ids" not in body["choices"][0]
    assert body["choices"][0]["logprobs"] is None


async def test_a_stream_says_the_same_as_one_body() -> None:
    asked = {**GOOD, "logprobs": True, "return_token_ids": True}
    long = {**asked, "messages": [{"role": "user", "content": "a long question, " * 9}]}
    async with mock_server("mock/echo") as url:
        _, whole, _ = await post(url, long)
        streamed = await events(url, {**long, "stream": True, "stream_options": {"include_usage": True}})
    choice = whole["choices"][0]
    pieces = [event["choices"][0] for event in streamed if event["choices"]]
    assert streamed[0]["prompt_token_ids"] == whole["prompt_token_ids"]
    assert "".join(piece["delta"].get("content", "") for piece in pieces) == choice["message"]["content"]
    assert [token for piece in pieces for token in piece.get("token_ids", ())] == choice["token_ids"]
    said: list[Any] = []
    for piece in pieces:
        said += piece["logprobs"]["content"] if piece.get("logprobs") else ()
    assert said == choice["logprobs"]["content"]
    assert [piece["finish_reason"] for piece in pieces][-2:] == [None, "stop"]
    assert streamed[-1]["usage"] == whole["usage"]


async def test_a_streamed_call_is_whole() -> None:
    async with mock_server() as url:
        streamed = await events(url, {**GOOD, "tools": [CALCULATE], "stream": True})
    calls = [call for event in streamed for call in event["choices"][0]["delta"].get("tool_calls", ())]
    assert [(call["index"], call["function"].get("name")) for call in calls] == [(0, "calculate"), (0, None), (0, None)]
    assert "".join(call["function"].get("arguments", "") for call in calls) == '{"expression":"2 + 3"}'
    assert streamed[-1]["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b"{", 400, "truncated"),
        (b"\xff", 400, ""),
        ([], 400, "Expected"),
        ({"model": "served"}, 400, "messages"),
        ({**GOOD, "messages": []}, 400, "empty conversation"),
        ({**GOOD, "messages": [{"role": "user", "content": 7}]}, 400, "Expected"),
        ({**GOOD, "messages": [{"role": "robot", "content": "x"}]}, 400, "unknown role"),
        ({**GOOD, "messages": [{"role": "tool", "content": "x"}]}, 400, "tool_call_id"),
        ({**GOOD, "max_tokens": 0}, 400, "max_tokens must be at least 1"),
        ({**GOOD, "temperature": "hot"}, 400, "Expected"),
        ({**GOOD, "tools": [{"type": "function"}]}, 400, "function"),
        ({**GOOD, "model": "other"}, 404, "does not exist. Valid aliases: served."),
    ],
)
async def test_a_malformed_body_is_refused(body: Any, status: int, problem: str) -> None:
    async with mock_server() as url:
        told = await post(url, body)
    assert told[0] == told[1]["error"]["code"] == status
    assert problem in told[1]["error"]["message"]


async def test_simulated_faults_come_as_http_errors() -> None:
    async with mock_server("mock/echo?fail=1") as url:
        assert (await post(url, GOOD))[0] == 500
    async with mock_server("mock/echo?ratelimit=1&retry_after=2") as url:
        status, _, headers = await post(url, GOOD)
        assert (status, headers["Retry-After"]) == (429, "2")
    async with mock_server("mock/echo?context=5") as url:
        status, body, _ = await post(url, GOOD)
        assert status == 400
        assert "maximum context length" in body["error"]["message"]


async def test_health_and_models_answer() -> None:
    async with mock_server() as url, aiohttp.ClientSession() as session:
        async with session.get(url.removesuffix("/v1") + "/health") as response:
            assert response.status == 200
        async with session.get(url + "/models") as response:
            assert [model["id"] for model in (await response.json())["data"]] == ["served"]


async def test_serve_mock_takes_a_free_port_and_ends_when_cancelled() -> None:
    ports: list[int] = []
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            bound = anyio.Event()

            def ready(port: int) -> None:
                ports.append(port)
                bound.set()

            async def serve() -> None:
                await serve_mock("mock/say?text=up", "127.0.0.1", 0, ready=ready)

            tasks.start_soon(serve)
            await bound.wait()
            for name in ("mock", "say", "mock/say", "mock/say?text=up"):
                status, body, _ = await post(f"http://127.0.0.1:{ports[0]}/v1", {**GOOD, "model": name})
                assert (status, body["choices"][0]["message"]["content"]) == (200, "up")
            tasks.cancel_scope.cancel()
    with pytest.raises(aiohttp.ClientConnectorError):
        await post(f"http://127.0.0.1:{ports[0]}/v1", GOOD)


async def converse(model: Model) -> list[ModelReply]:
    """A conversation of two questions with a tool, and one cut short."""
    tool = Tool(name="calculate", input_schema=CALCULATE["function"]["parameters"])
    conversation: list[Message] = [system("Répondez."), user("What is 12 * 7?")]
    replies: list[ModelReply] = []
    for result in ("84", None, "9", None):
        reply = await model.generate(ask(*conversation, tools=[tool], sampling=Sampling(seed=11)))
        replies.append(reply)
        conversation.append(reply.message)
        if result is not None:
            (request,) = reply.message.tool_requests
            conversation.append(Message(role="tool", content=result, tool_call_id=request.id))
        else:
            conversation.append(user("And 4 + 5?"))
    replies.append(await model.generate(ask(*conversation, sampling=Sampling(max_tokens=3))))
    return replies


@pytest.mark.parametrize("name", ["mock/solver", "mock/solver?accuracy=0.5&seed=2"])
async def test_both_lanes_give_the_same_messages_ids_and_logprobs(name: str) -> None:
    in_process = await converse(MockModel(ModelConfig(name=name)))
    async with mock_server(name) as url, direct(url) as model:
        over_http = await converse(model)
    assert over_http == in_process
    for before, after in itertools.pairwise(in_process[:-1]):
        assert before.prompt_token_ids is not None
        assert before.output_token_ids is not None
        assert after.prompt_token_ids is not None
        assert after.prompt_token_ids.startswith(before.prompt_token_ids + before.output_token_ids)
