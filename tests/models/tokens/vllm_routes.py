"""A server with vLLM's routes for token ids, as vLLM 0.32 answers them, over the tests' own tokenizer."""

import base64
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

from aiohttp import web

from rollouthub.models.tokens.tool_text import hermes
from tests.models.servers import serving
from tests.models.tokens.chatml import ChatMl
from tests.models.tokens.shown_pictures import MARK, picture_tokens, shown_text

SWITCHED_OFF = "Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them."
IMAGE, BREAK = 1001, 1002
"""Ids of a picture's own tokens, and of one that some models write between its rows."""
Loses = Literal["nothing", "pictures", "tensors", "mask"]
"""What a server does not give back: a picture altogether, its tensors, or which tokens of its place are its own."""


class VllmRoutes:
    """Renders, gives scripted choices, reads answers; keeps what it was asked by route."""

    loses: Loses = "nothing"

    def __init__(self, *choices: dict[str, Any] | web.Response) -> None:
        self.tokenizer = ChatMl()
        self.choices = list(choices)
        self.asked: dict[str, list[dict[str, Any]]] = {"render": [], "generate": [], "derender": []}
        self.headers: list[dict[str, str]] = []
        self.seen: list[list[bytes]] = []
        """The pictures of each prompt that was answered."""
        self.is_down = False
        self.adapters: dict[str, str] = {}
        """Loaded adapters, by name, and the folders that they came from."""

    async def _render(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.asked["render"].append(body)
        if self.is_down:
            return web.json_response({"error": {"message": "down"}}, status=503)
        shown: list[bytes] = []
        text = self.tokenizer.apply_chat_template(
            [{**message, "content": shown_text(message.get("content"), shown)} for message in body["messages"]],
            tools=body.get("tools"),
            add_generation_prompt=body.get("add_generation_prompt", True),
            tokenize=False,
        )
        sampling = {"temperature": body.get("temperature", 0.6), "top_k": body.get("top_k", 20), "max_tokens": 99}
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        ids, features = self._placed(ids, shown, gives_tensors=body.get("mm_payload") != "none")
        return web.json_response({"token_ids": ids, "sampling_params": sampling, "features": features})

    def _placed(
        self, written: list[int], shown: list[bytes], *, gives_tensors: bool
    ) -> tuple[list[int], dict[str, Any] | None]:
        """The ids with each picture's own, and what the server says of them."""
        (mark,) = self.tokenizer.encode(MARK, add_special_tokens=False)
        ids, places, left = list[int](), list[dict[str, int]](), iter(shown)
        for token in written:
            if token != mark:
                ids.append(token)
                continue
            count = picture_tokens(next(left))
            places.append({"offset": len(ids), "length": count})
            ids += [IMAGE] * (count - 1) + [BREAK if self.loses == "mask" else IMAGE]
        if not shown or self.loses == "pictures":
            return ids, None
        tensors = [base64.b64encode(raw).decode() for raw in shown]
        return ids, {
            "mm_hashes": {"image": [hashlib.sha256(raw).hexdigest() for raw in shown]},
            "mm_placeholders": {"image": places},
            "kwargs_data": {"image": tensors} if gives_tensors and self.loses != "tensors" else None,
            "mm_metadata": None,
        }

    async def _generate(self, request: web.Request) -> web.Response:
        self.headers.append(dict(request.headers))
        body = await request.json()
        self.asked["generate"].append(body)
        self.seen.append(_seen(body))
        if body["model"] not in ("served", *self.adapters):
            return _not_found(f"The model `{body['model']}` does not exist.")
        choice = self.choices[min(len(self.asked["generate"]), len(self.choices)) - 1]
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
        return web.json_response({"data": [{"id": name} for name in ("served", *self.adapters)]})

    async def _load_adapter(self, request: web.Request) -> web.Response:
        body = await request.json()
        name, path = body["lora_name"], body["lora_path"]
        if path == "/nowhere":
            return _not_found(f"The lora adapter '{name}' is no adapter: /nowhere holds none.")
        if name in self.adapters:
            said = f"The lora adapter '{name}' has already been loaded."
            return web.json_response({"error": {"message": said, "code": 400}}, status=400)
        self.adapters[name] = path
        return web.Response(text=f"Success: LoRA adapter '{name}' added successfully.")

    async def _unload_adapter(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        if self.adapters.pop(name, None) is None:
            return _not_found(f"The lora adapter '{name}' cannot be found.")
        return web.Response(text=f"Success: LoRA adapter '{name}' removed successfully.")

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=503 if self.is_down else 200)

    def app(self, offers: str = "all") -> web.Application:
        """Its routes. `offers` is `all`, `none` as of an older vLLM, or `off` without the flag."""

        async def refuse(request: web.Request) -> web.Response:
            return web.json_response({"error": {"message": SWITCHED_OFF, "code": 403}}, status=403)

        app = web.Application(client_max_size=2**26)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/health", self._health)
        if offers != "none":
            app.router.add_post("/v1/load_lora_adapter", self._load_adapter)
            app.router.add_post("/v1/unload_lora_adapter", self._unload_adapter)
        if offers != "none":
            is_on = offers == "all"
            app.router.add_post("/v1/chat/completions/render", self._render if is_on else refuse)
            app.router.add_post("/inference/v1/generate", self._generate if is_on else refuse)
            app.router.add_post("/v1/chat/completions/derender", self._derender if is_on else refuse)
        return app

    @asynccontextmanager
    async def serve(self, offers: str = "all") -> AsyncGenerator[str]:
        """Serve it; its base URL. `offers` is as for `app`."""
        async with serving(self.app(offers)) as url:
            yield url


def _not_found(message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "type": "NotFoundError", "code": 404}}, status=404)


def _seen(body: dict[str, Any]) -> list[bytes]:
    """The pictures of a prompt of ids, each at the place that the request names."""
    features: dict[str, Any] | None = body.get("features")
    if features is None:
        assert IMAGE not in body["token_ids"], "a prompt with a picture's tokens and without the picture"
        return []
    raws = [base64.b64decode(each) for each in features["kwargs_data"]["image"]]
    places = features["mm_placeholders"]["image"]
    assert features["mm_hashes"]["image"] == [hashlib.sha256(raw).hexdigest() for raw in raws]
    for raw, place in zip(raws, places, strict=True):
        begin, end = place["offset"], place["offset"] + place["length"]
        assert body["token_ids"][begin:end] == [IMAGE] * picture_tokens(raw)
        assert IMAGE not in body["token_ids"][begin - 1 : begin] + body["token_ids"][end : end + 1]
    return raws


def sampled(ids: list[int], **more: Any) -> dict[str, Any]:
    """A choice of these ids, with log-probabilities that name their places."""
    content = [{"token_id": each, "logprob": -0.25 * (place + 1)} for place, each in enumerate(ids)]
    return {"token_ids": ids, "logprobs": {"content": content}, **more}
