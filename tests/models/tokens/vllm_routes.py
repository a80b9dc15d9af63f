"""A server with vLLM's routes for token ids, as vLLM 0.32 answers them, over the tests' own tokenizer."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from rollouthub.models.tokens.tool_text import hermes
from tests.models.servers import serving
from tests.models.tokens.chatml import ChatMl

SWITCHED_OFF = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."


class VllmRoutes:
    """Renders, gives scripted choices, reads answers; keeps what it was asked by route."""

    def __init__(self, *choices: dict[str, Any] | web.Response) -> None:
        self.tokenizer = ChatMl()
        self.choices = list(choices)
        self.asked: dict[str, list[dict[str, Any]]] = {"render": [], "generate": [], "derender": []}
        self.headers: list[dict[str, str]] = []
        self.is_down = False

    async def _render(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked["render"].append(body)
        if self.is_down:
            return web.json_response({"error": {"message": "down"}}, status=503)
        text = self.tokenizer.apply_chat_template(
            [{**message, "content": message.get("content") or ""} for message in body["messages"]],
            tools=body.get("tools"),
            add_generation_prompt=body.get("add_generation_prompt", True),
            tokenize=False,
        )
        sampling = {"temperature": body.get("temperature", 0.6), "top_k": body.get("top_k", 20), "max_tokens": 99}
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        return web.json_response({"token_ids": ids, "sampling_params": sampling})

    async def _generate(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        self.asked["generate"].append(await request.json())
        choice = self.choices[len(self.asked["generate"]) - 1]
        if isinstance(choice, web.Response):
            return choice
        return web.json_response({"choices": [{"index": 0, "finish_reason": "stop", "stop_reason": None, **choice}]})

    async def _derender(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked["derender"].append(body)
        # Special tokens stay in, as in vLLM where a parser is configured.
        (choice,) = body["generate_response"]["choices"]
        spoken = hermes(self.tokenizer.decode(choice["token_ids"]), ())
        calls = [
            {"id": f"srv-{len(self.asked['derender'])}-{place}", "function": {"name": c.name, "arguments": c.arguments}}
            for place, c in enumerate(spoken.requests)
        ]
        message = {"role": "assistant", "content": spoken.words or None, "tool_calls": calls}
        return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "served"}]})

    @asynccontextmanager
    async def serve(self, offers: str = "all") -> AsyncGenerator[str]:
        """Serve it; its base URL. `offers` is `all`, `none` as of an older vLLM, or `off` without the flag."""

        async def refuse(request: web.Request) -> web.Response:
            return web.json_response({"error": {"message": SWITCHED_OFF, "code": 403}}, status=403)

        app = web.Application(client_max_size=2**26)
        app.router.add_get("/v1/models", self._models)
        if offers != "none":
            is_on = offers == "all"
            app.router.add_post("/v1/chat/completions/render", self._render if is_on else refuse)
            app.router.add_post("/inference/v1/generate", self._generate if is_on else refuse)
            app.router.add_post("/v1/chat/completions/derender", self._derender if is_on else refuse)
        async with serving(app) as url:
            yield url


def sampled(ids: list[int], **more: Any) -> dict[str, Any]:
    """A choice of these ids, with log-probabilities that name their places."""
    content = [{"token_id": each, "logprob": -0.25 * (place + 1)} for place, each in enumerate(ids)]
    return {"token_ids": ids, "logprobs": {"content": content}, **more}
