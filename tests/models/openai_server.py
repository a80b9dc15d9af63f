"""A server of OpenAI's wire on the loopback: requests and answers are checked by the types of OpenAI's own package."""

import json
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from aiohttp import web
from openai.types import Batch, FileObject
from openai.types.batch_create_params import BatchCreateParams
from openai.types.chat import ChatCompletion
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming
from openai.types.responses.response_input_param import ResponseInputParam
from pydantic import TypeAdapter

from tests.models.servers import serving

MODEL = "gpt-test"
USAGE = {
    "input_tokens": 40,
    "input_tokens_details": {"cached_tokens": 30, "cache_write_tokens": 0},
    "output_tokens": 8,
    "output_tokens_details": {"reasoning_tokens": 5},
    "total_tokens": 48,
}
_RESPONSES = TypeAdapter[Any](ResponseCreateParamsNonStreaming)
_INPUT = TypeAdapter[Any](ResponseInputParam)
_CHAT = TypeAdapter[Any](CompletionCreateParamsNonStreaming)
_BATCH = TypeAdapter[Any](BatchCreateParams)
_EVENT = TypeAdapter[Any](ResponseStreamEvent)

Say = Callable[[dict[str, Any]], Any]
"""What is answered to a request's body: words, or the output items of a response, or a whole body."""


def check_body(path: str, body: dict[str, Any]) -> None:
    """Check a request's body by the package's types."""
    given = {key: value for key, value in body.items() if key != "stream"}
    if path.endswith("/responses"):
        _RESPONSES.validate_python(given)
        assert set(given) <= set(ResponseCreateParamsNonStreaming.__annotations__) | _inherited(_RESPONSES), (
            given.keys()
        )
        if not isinstance(given["input"], str):
            _INPUT.validate_python(given["input"])
    else:
        checked = _CHAT.validate_python(given)
        list(checked["messages"])
        list(checked.get("tools", ()))
        assert set(given) <= _inherited(_CHAT), given.keys()


def _inherited(adapter: TypeAdapter[Any]) -> set[str]:
    return set(adapter.json_schema()["properties"])


def message_item(text: str, number: int = 0) -> dict[str, Any]:
    """A message among a response's output."""
    content: Any = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]
    return {"type": "message", "id": f"msg_{number}", "role": "assistant", "status": "completed", "content": content}


def reasoning_item(sealed: str, summary: str = "", number: int = 0) -> dict[str, Any]:
    """Encrypted reasoning among a response's output."""
    said = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "id": f"rs_{number}", "summary": said, "encrypted_content": sealed}


def call_item(name: str, arguments: str, number: int = 0) -> dict[str, Any]:
    """A function call among a response's output."""
    call = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "status": "completed"}
    return {**call, "name": name, "arguments": arguments}


def response(output: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """A response's body, as the package's type writes it."""
    whole = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "status": "completed",
        "model": MODEL,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": USAGE,
        **fields,
    }
    return Response.model_validate(whole).model_dump(mode="json", exclude_none=True)


def completion(text: str, **fields: Any) -> dict[str, Any]:
    """A chat completion's body, as the package's type writes it."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}, **fields}
    usage = {
        "prompt_tokens": 40,
        "completion_tokens": 8,
        "total_tokens": 48,
        "prompt_tokens_details": {"cached_tokens": 30},
        "completion_tokens_details": {"reasoning_tokens": 5},
    }
    whole = {"id": "c", "object": "chat.completion", "created": 1, "model": MODEL, "choices": [choice], "usage": usage}
    return ChatCompletion.model_validate(whole).model_dump(mode="json", exclude_none=True)


def events_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The events of a streamed response, each checked by the package's types."""
    begun: Any = {**body, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(body["output"]):
        at = {"item_id": item["id"], "output_index": index}
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        if item["type"] == "message":
            text = item["content"][0]["text"]
            for piece in (text[:2], text[2:]):
                more: Any = {"content_index": 0, "delta": piece, "logprobs": []}
                events.append({"type": "response.output_text.delta", **at, **more})
        elif item["type"] == "function_call":
            for piece in (item["arguments"][:3], item["arguments"][3:]):
                delta = {"type": "response.function_call_arguments.delta", **at, "delta": piece}
                events.append(delta)
        for place, part in enumerate(item.get("summary") or ()):
            empty = {"type": "summary_text", "text": ""}
            added = {"type": "response.reasoning_summary_part.added", **at, "summary_index": place, "part": empty}
            more = {"summary_index": place, "delta": part["text"]}
            events += [added, {"type": "response.reasoning_summary_text.delta", **at, **more}]
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{body['status']}", "response": body})
    numbered = [{"sequence_number": number, **event} for number, event in enumerate(events)]
    for event in numbered:
        _EVENT.validate_python(event)
    return numbered


class OpenAIServer:
    """Chat Completions, Responses, files and batches, and what was asked of them."""

    def __init__(self, say: Say = lambda _: "hi", *, headers: dict[str, str] | None = None) -> None:
        self.say, self.answer_headers = say, headers or {}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        """Path and body of each unbatched call."""
        self.headers: list[dict[str, str]] = []
        """Headers of each request, with names in lower case."""
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.batched: list[tuple[str, dict[str, Any]]] = []
        """Custom id and body of each batched request."""
        self.is_held = False
        """Whether batches stay in progress."""
        self.polled = anyio.Event()
        """Set when a batch is asked for."""
        self.output: Callable[[list[dict[str, Any]]], bytes] = _lines
        """Makes the output file of a batch of its lines."""
        self.end: dict[str, Any] = {}
        """Fields of a batch that has ended, in place of what is usual."""
        self.refuses_line: Callable[[str, dict[str, Any]], tuple[int, dict[str, Any]] | None] = lambda _, __: None
        """Status and error of a batched request that fails."""
        self.loses_creation = False
        """Whether the connection breaks in place of the answer to the next creation of a batch."""
        self.is_down = False
        """Whether everything is answered with HTTP 503."""
        self.drops: set[str] = set()
        """Custom ids that a batch leaves without an answer."""

    @asynccontextmanager
    async def serve(self) -> AsyncGenerator[str]:
        """Serve it; its base URL."""
        app = web.Application(client_max_size=2**28, middlewares=[self._note])
        app.router.add_post("/v1/responses", self._call)
        app.router.add_post("/v1/chat/completions", self._call)
        app.router.add_get("/v1/models", self._models)
        app.router.add_post("/v1/files", self._upload)
        app.router.add_get("/v1/files/{id}/content", self._content)
        app.router.add_post("/v1/batches", self._create)
        app.router.add_get("/v1/batches", self._list)
        app.router.add_get("/v1/batches/{id}", self._retrieve)
        async with serving(app) as url:
            yield url

    @web.middleware
    async def _note(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if self.is_down:
            return web.json_response({"error": {"message": "down"}}, status=503)
        answer: web.StreamResponse = await handler(request)
        return answer

    def body_for(self, path: str, asked: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        said = self.say(asked)
        if isinstance(said, dict):
            return said  # pyright: ignore[reportUnknownVariableType]
        if path.endswith("/responses"):
            return response([message_item(said)] if isinstance(said, str) else said)
        return completion(said)

    async def _call(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        check_body(request.path, body)
        self.asked.append((request.path, body))
        answer = self.body_for(request.path, body)
        if "error" in answer and answer.get("object") != "response":
            return web.json_response(answer, status=answer.pop("status", 400), headers=self.answer_headers)
        if not body.get("stream"):
            return web.json_response(answer, headers=self.answer_headers)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream", **self.answer_headers})
        await stream.prepare(request)
        for event in events_of(answer):
            await stream.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        await stream.write_eof()
        return stream

    async def _models(self, request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model"}]})

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        form = await request.post()
        assert form["purpose"] == "batch"
        sent: Any = form["file"]
        name = f"file-{len(self.files)}"
        self.files[name] = sent.file.read()
        size = len(self.files[name])
        made = {"id": name, "bytes": size, "created_at": 1, "filename": sent.filename, "object": "file"}
        file = FileObject.model_validate({**made, "purpose": "batch", "status": "processed"})
        return web.json_response(file.model_dump(mode="json"))

    async def _content(self, request: web.Request) -> web.StreamResponse:
        return web.Response(body=self.files[request.match_info["id"]], content_type="application/octet-stream")

    async def _create(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        _BATCH.validate_python(asked)
        lines = [json.loads(line) for line in self.files[asked["input_file_id"]].splitlines()]
        for line in lines:
            assert set(line) == {"custom_id", "method", "url", "body"}
            assert (line["method"], line["url"]) == ("POST", asked["endpoint"])
            check_body(line["url"], line["body"])
            self.batched.append((line["custom_id"], line["body"]))
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "completion_window": asked["completion_window"],
            "created_at": int(time.time()),
            "endpoint": asked["endpoint"],
            "input_file_id": asked["input_file_id"],
            "status": "validating",
            "metadata": asked.get("metadata"),
            "request_counts": {"total": len(lines), "completed": 0, "failed": 0},
        }
        if self.loses_creation:
            self.loses_creation = False
            assert request.transport is not None
            request.transport.abort()
        return self._shown(name)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        found = [Batch.model_validate(batch).model_dump(mode="json") for batch in reversed(self.batches.values())]
        return web.json_response({"object": "list", "data": found, "has_more": False})

    async def _retrieve(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["id"]
        polled, self.polled = self.polled, anyio.Event()
        polled.set()
        if not self.is_held and self.batches[name]["status"] in ("validating", "in_progress"):
            self._finish(name)
        elif self.is_held:
            self.batches[name]["status"] = "in_progress"
        return self._shown(name)

    def _shown(self, name: str) -> web.StreamResponse:
        return web.json_response(Batch.model_validate(self.batches[name]).model_dump(mode="json"))

    def _finish(self, name: str) -> None:
        batch = self.batches[name]
        good: list[dict[str, Any]] = []
        bad: list[dict[str, Any]] = []
        for line in self.files[batch["input_file_id"]].splitlines():
            asked = json.loads(line)
            custom_id, body = asked["custom_id"], asked["body"]
            refused = self.refuses_line(custom_id, body)
            if custom_id in self.drops:
                continue
            entry: dict[str, Any] = {"id": f"batch_req_{len(good)}", "custom_id": custom_id, "error": None}
            if refused is not None:
                status, error = refused
                entry["response"] = {"status_code": status, "request_id": "r", "body": {"error": error}}
                bad.append(entry)
            else:
                answer = self.body_for(batch["endpoint"], body)
                entry["response"] = {"status_code": 200, "request_id": "r", "body": answer}
                good.append(entry)
        for kind, lines in (("output", good), ("error", bad)):
            if lines:
                self.files[f"file-{name}-{kind}"] = self.output(lines) if kind == "output" else _lines(lines)
                batch[f"{kind}_file_id"] = f"file-{name}-{kind}"
        counts = {"total": batch["request_counts"]["total"], "completed": len(good), "failed": len(bad)}
        batch |= {"status": "completed", "completed_at": int(time.time()), "request_counts": counts, **self.end}


def _lines(entries: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in reversed(entries))
