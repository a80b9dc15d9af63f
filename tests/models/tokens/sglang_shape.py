"""A server of SGLang's shape: the routes, bodies and refusals of version 0.5.23 that the hub relies on.

Read below `sglang/srt/`: `entrypoints/http_server.py`, `entrypoints/openai/{protocol,serving_chat,serving_tokenize,
serving_base}.py`, `managers/{io_struct,tokenizer_manager,tokenizer_control_mixin}.py`, `lora/lora_registry.py`,
`multimodal/processors/base_processor.py` and `utils/{auth,weight_versions}.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web

from rollouthub.models.tokens.tool_text import hermes
from tests.models.tokens.chatml import ChatMl
from tests.models.tokens.sglang_chat_shape import chat_answer, chat_events, malformed_call, refusal, spelled
from tests.models.tokens.shown_pictures import MARK, shown_text, shown_tokens

PIECES = 3
"""Tokens of an answer that are computed between two looks at what the server was told."""


@dataclass
class SglangShape:
    """Answers what it is given, or `It is done and done.`, a few tokens at a time, and does what a trainer tells it."""

    tokenizer: ChatMl = field(default_factory=ChatMl)
    answers: list[list[int]] = field(default_factory=list[list[int]])
    """Ids of the answers in their order; the last one for ever."""
    api_key: str | None = None
    version: str = "default"
    weights: str = "first"
    served: str = "served"
    context: int = 4096
    """Tokens that fit."""
    reasoning_parser: str | None = None
    tool_call_parser: str | None = "hermes"
    retokenizes: bool = False
    """Whether it encodes prompts with pictures anew, as with SGLANG_MM_AVOID_RETOKENIZE=0."""
    is_old: bool = False
    """Whether it has no routes for tokens."""
    ignores_ids: bool = False
    """Whether its chat route knows no `input_ids`, as older ones."""
    mode: str | None = None
    """How it is paused; None while it generates."""
    seconds: float = 0.0
    """Between two pieces of an answer."""
    held: anyio.Event | None = None
    """What holds every answer, once it has its first piece, until it is taken away."""
    running: int = 0
    aborts: int = 0
    """Counts up with each order to abort all requests."""
    aborted: list[str] = field(default_factory=list[str])
    """The ids of single requests that were ordered to end."""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sessions: list[str] = field(default_factory=list[str])
    flushes: int = 0
    told: list[str] = field(default_factory=list[str])
    adapters: dict[str, str] = field(default_factory=dict[str, str])
    """Loaded adapters, by name, and the folders that they came from."""
    using: list[str] = field(default_factory=list[str])
    """The adapters of requests in flight."""
    _rids: set[str] = field(default_factory=set[str])
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def app(self) -> web.Application:
        """Its routes."""
        app = web.Application(client_max_size=2**26, middlewares=[self._auth])
        posts = {
            "/generate": self._generate,
            "/v1/chat/completions": self._chat,
            "/v1/tokenize": self._tokenize,
            "/v1/detokenize": self._detokenize,
            "/parse_function_call": self._parse_calls,
            "/separate_reasoning": self._separate,
            "/abort_request": self._abort,
            "/pause_generation": self._pause,
            "/continue_generation": self._continue,
            "/flush_cache": self._flush,
            "/update_weight_version": self._update_version,
            "/update_weights_from_disk": self._load,
            "/release_memory_occupation": self._memory,
            "/load_lora_adapter": self._load_adapter,
            "/unload_lora_adapter": self._unload_adapter,
        }
        for route, handler in posts.items():
            if not (self.is_old and "tokenize" in route):
                app.router.add_post(route, handler)
        app.router.add_get("/model_info", self._info)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        return app

    @web.middleware
    async def _auth(self, request: web.Request, handler: Any) -> web.StreamResponse:
        is_open = self.api_key is None or request.path.startswith(("/health", "/metrics"))
        if not is_open and request.headers.get("Authorization") != f"Bearer {self.api_key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return await handler(request)

    # --- sampling ---------------------------------------------------------------------------------------------------

    async def _generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["return_logprob"] is True
        prompt = self._expanded(body["input_ids"], body.get("image_data") or [])
        ids, meta = await self._sampled(body, prompt, request)
        answer: dict[str, Any] = {"text": "", "output_ids": ids, "meta_info": meta}
        if body.get("return_prompt_token_ids"):
            answer["prompt_token_ids"] = prompt
        if "message" in meta:
            return web.json_response({"error": {"message": meta["message"]}}, status=400)
        return web.json_response(answer)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if body.get("stream") and body.get("return_token_ids"):
            return refusal("return_token_ids is not supported with streaming on /v1/chat/completions.")
        if said := malformed_call(body):
            return refusal(said)
        given = None if self.ignores_ids else body.get("input_ids")
        prompt = self.rendered(body) if given is None else given
        ids, meta = await self._sampled(body, prompt, request)
        if "message" in meta:
            return refusal(meta["message"])
        spoken = spelled(self.tokenizer, ids, body, self.reasoning_parser, self.tool_call_parser, len(self.asked))
        if body.get("stream"):
            return await chat_events(request, body, prompt, ids, meta, spoken)
        return web.json_response(chat_answer(body, prompt, ids, meta, spoken))

    async def _sampled(
        self, body: dict[str, Any], prompt: list[int], request: web.Request
    ) -> tuple[list[int], dict[str, Any]]:
        """The ids of an answer and its `meta_info`; with a `message` where the request is refused."""
        self.asked.append(body)
        self.sessions.append(request.headers.get("X-SMG-Routing-Key", ""))
        if len(prompt) >= self.context:
            said = (
                f"The input ({len(prompt)} tokens) is longer than the model's context length ({self.context} tokens)."
            )
            return [], {"message": said}
        await self.until(lambda: self.mode is None)
        adapter, rid = body.get("lora_path"), body.get("rid", "")
        if adapter is not None and adapter not in self.adapters:
            return [], {"message": f"The following requested LoRA adapters are not loaded: {adapter}"}
        self.using += [adapter] if adapter else []
        self._rids.add(rid)
        self._count(1)
        try:
            return await self._pieces(self._answer(), rid)
        finally:
            self._rids.discard(rid)
            if adapter:
                self.using.remove(adapter)
            self._count(-1)

    def _answer(self) -> list[int]:
        if self.answers:
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [*self.tokenizer.encode("It is done and done.", add_special_tokens=False), self.tokenizer.end]

    async def _pieces(self, said: list[int], rid: str) -> tuple[list[int], dict[str, Any]]:
        aborts, ids, spans = self.aborts, list[int](), list[dict[str, Any]]()

        def goes_on() -> bool:
            return self.aborts == aborts and rid not in self.aborted

        while len(ids) < len(said) and goes_on():
            ids += said[len(ids) : len(ids) + PIECES]
            if not spans or spans[-1]["version"] != self.version:
                spans.append({"version": self.version, "start": spans[-1]["end"] if spans else 0})
            spans[-1]["end"] = len(ids)
            await anyio.sleep(self.seconds)
            if (held := self.held) is not None:
                await self.until(lambda held=held: self.held is not held or not goes_on())
            if self.mode == "retract":
                self._count(-1)
                await self.until(lambda: self.mode is None)
                self._count(1)
        reason: dict[str, Any] = {"type": "abort", "message": "Aborted"}
        if goes_on():
            reason = {"type": "stop", "matched": ids[-1]}
        meta: dict[str, Any] = {
            "id": rid,
            "finish_reason": reason,
            "output_token_logprobs": [[-(1 + token % 64) / 64, token, None] for token in ids],
            "weight_version": self.version,
        }
        if spans:
            meta["weight_versions"] = spans
        return ids, meta

    def _expanded(self, ids: list[int], pictures: list[str]) -> list[int]:
        """A prompt with each picture's tokens in place of the one that stands for it."""
        if not pictures:
            return ids
        if self.retokenizes:
            text = self.tokenizer.decode(ids, skip_special_tokens=False)
            ids = self.tokenizer.encode(text, add_special_tokens=False)
        (mark,) = self.tokenizer.encode(MARK, add_special_tokens=False)
        assert ids.count(mark) == len(pictures)
        left = iter(pictures)
        return [each for token in ids for each in ([token] * shown_tokens(next(left)) if token == mark else [token])]

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something of this server's."""
        while not holds():
            await self._changed.wait()

    def change(self) -> None:
        """Tell those who wait to look again."""
        self._changed.set()
        self._changed = anyio.Event()

    def _count(self, change: int) -> None:
        self.running += change
        self.change()

    # --- rendering and parsing --------------------------------------------------------------------------------------

    def rendered(self, body: dict[str, Any], *, add_generation_prompt: bool = True) -> list[int]:
        """The ids of a conversation, with one token for each picture."""
        text = self.tokenizer.apply_chat_template(
            [{**message, "content": shown_text(message.get("content"))} for message in body["messages"]],
            tools=body.get("tools"),
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
        )
        return self.tokenizer.encode(text, add_special_tokens=False)

    async def _tokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        if said := malformed_call(body):
            return refusal(said)
        ids = self.rendered(body, add_generation_prompt=body.get("add_generation_prompt") is not False)
        return web.json_response({"tokens": ids, "count": len(ids), "max_model_len": self.context})

    async def _detokenize(self, request: web.Request) -> web.Response:
        body = await request.json()
        text = self.tokenizer.decode(body["tokens"], skip_special_tokens=body["skip_special_tokens"])
        return web.json_response({"text": text})

    async def _parse_calls(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["tool_call_parser"] == self.tool_call_parser
        spoken = hermes(body["text"], ())
        calls = [
            {"tool_index": place, "name": call.name, "parameters": call.arguments}
            for place, call in enumerate(spoken.requests)
        ]
        return web.json_response({"normal_text": spoken.words, "calls": calls})

    async def _separate(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["reasoning_parser"] == self.reasoning_parser
        thought, mark, rest = body["text"].partition("</think>")
        if not body["text"].startswith("<think>") or not mark:
            thought, rest = "", body["text"]
        return web.json_response({"reasoning_text": thought.removeprefix("<think>"), "text": rest})

    # --- orders -----------------------------------------------------------------------------------------------------

    async def _abort(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("abort_all"):
            self.aborts += 1
        elif body["rid"] in self._rids:
            self.aborted.append(body["rid"])
        self.change()
        return web.Response()

    async def _pause(self, request: web.Request) -> web.Response:
        self.mode = (await request.json()).get("mode", "abort")
        assert self.mode in ("abort", "retract", "in_place")
        if self.mode == "abort":
            self.aborts += 1
        self.change()
        if self.mode != "in_place":
            await self.until(lambda: not self.running)
        return web.json_response({"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, request: web.Request) -> web.Response:
        await request.json()
        self.mode = None
        self.change()
        return web.json_response({"message": "Generation continued successfully.", "status": "ok"})

    async def _flush(self, request: web.Request) -> web.Response:
        if self.running:
            return web.Response(text="Flush cache failed.\n", status=400)
        self.flushes += 1
        return web.Response(text="Cache flushed.\n")

    async def _update_version(self, request: web.Request) -> web.Response:
        body = await request.json()
        if body.get("abort_all_requests", True):
            self.aborts += 1
        self.version = body["new_version"]
        return web.json_response({"success": True, "message": "", "new_version": self.version})

    async def _load(self, request: web.Request) -> web.Response:
        path = (await request.json())["model_path"]
        if path == "/nowhere":
            return web.json_response({"success": False, "message": "no such model"}, status=400)
        self.weights = self.served = path  # as `_update_model_path_info` does
        return web.json_response({"success": True, "message": "", "num_paused_requests": 0})

    async def _memory(self, request: web.Request) -> web.Response:
        self.told.append(f"release {(await request.json())['tags']}")
        return web.Response()

    async def _load_adapter(self, request: web.Request) -> web.Response:
        body = await request.json()
        name, path = body["lora_name"], body["lora_path"]
        if name in self.adapters or path == "/nowhere":
            said = "no such adapter" if path == "/nowhere" else f"LoRA adapter {name} is already loaded"
            return web.json_response({"success": False, "error_message": said}, status=400)
        self.adapters[name] = path
        return web.json_response({"success": True, "loaded_adapters": self.adapters})

    async def _unload_adapter(self, request: web.Request) -> web.Response:
        name = (await request.json())["lora_name"]
        if self.adapters.pop(name, None) is None:
            said = f"LoRA with name {name} does not exist. Loaded LoRAs: {list(self.adapters)}"
            return web.json_response({"success": False, "error_message": said}, status=400)
        await self.until(lambda: name not in self.using)
        return web.json_response({"success": True, "loaded_adapters": self.adapters})

    async def _info(self, request: web.Request) -> web.Response:
        info = {"model_path": self.weights, "weight_version": self.version}
        parsers = {"reasoning_parser": self.reasoning_parser, "tool_call_parser": self.tool_call_parser}
        return web.json_response({**info, **parsers})

    async def _health(self, request: web.Request) -> web.Response:
        return web.Response(status=200 if self.weights != "none" else 503)

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": self.served}, *({"id": name} for name in self.adapters)]})
