"""Behind a trainer's gateway: a policy served over HTTP with the ids it took and gave, and what is played."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio
from aiohttp import web

from rollouthub.export import TaskReference
from rollouthub.http.listener import bind_tcp
from tests import local_server
from tests.trainers.speaker import Speaker


@asynccontextmanager
async def serving(routes: list[web.RouteDef]) -> AsyncGenerator[str]:
    """A server of these routes; its address."""
    app = web.Application()
    app.add_routes(routes)
    async with local_server.serving(app) as url:
        yield url


class Upstream:
    """A server of the policy in vLLM's shape, which gives token ids."""

    def __init__(self) -> None:
        self.speaker, self.failures = Speaker(), 0

    def answer(self, body: Mapping[str, Any]) -> dict[str, Any]:
        tokenizer = self.speaker.tokenizer
        text = tokenizer.apply_chat_template(
            [_template(message) for message in body["messages"]],
            tools=body.get("tools"),
            add_generation_prompt=True,
            tokenize=False,
        )
        said = self.speaker.speak(tokenizer.encode(text, add_special_tokens=False))
        words = tokenizer.decode(said.token_ids, skip_special_tokens=True)
        return {
            "object": "chat.completion",
            "model": "tiny",
            "prompt_token_ids": said.prompt_ids,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": _message(words),
                    "token_ids": said.token_ids,
                    "logprobs": {"content": [{"token": "?", "logprob": value} for value in said.logprobs]},
                }
            ],
            "usage": {"prompt_tokens": len(said.prompt_ids), "completion_tokens": len(said.token_ids)},
        }

    async def handle(self, request: web.Request) -> web.Response:
        return web.json_response(self.answer(await request.json()))


def _template(message: Mapping[str, Any]) -> dict[str, Any]:
    calls = [
        {"function": {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]
    return {"role": message["role"], "content": message.get("content") or "", "tool_calls": calls}


def _message(words: str) -> dict[str, Any]:
    if "<tool_call>" not in words:
        return {"role": "assistant", "content": words}
    call = json.loads(words.partition("<tool_call>")[2].partition("</tool_call>")[0])
    function = {"name": call["name"], "arguments": json.dumps(call["arguments"])}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call-1", "type": "function", "function": function}],
    }


@asynccontextmanager
async def served(uvicorn: Any, app: Any) -> AsyncGenerator[str]:
    """An ASGI application on loopback; its address."""
    running = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    with closing(bind_tcp("127.0.0.1", 0)) as listening:
        listening.listen()  # what comes before the server does waits here
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running._serve, [listening])
            try:
                yield f"http://127.0.0.1:{listening.getsockname()[1]}"
            finally:
                running.should_exit = True


def playing(folder: Path, **more: Any) -> dict[str, Any]:
    """The settings of a run."""
    return {
        "environments": ["arithmetic"],
        "set": {"terms": 2, "digits": 2},
        "training": {"directory": str(folder)},
        "track": [],
    } | more


def everything_below(folder: Path) -> bytes:
    """All that was written."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def sum_task(number: int) -> str:
    """A task's name as it stands in a rollout's input."""
    return str(TaskReference("arithmetic", "train", f"train/{number}"))
