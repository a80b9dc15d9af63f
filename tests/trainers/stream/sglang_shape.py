"""A server of SGLang's shape: the routes, bodies and refusals of version 0.5.23 that the hub relies on.

Read in `sglang/srt/entrypoints/http_server.py`, `sglang/srt/managers/io_struct.py`,
`sglang/srt/managers/tokenizer_manager.py` and `sglang/srt/utils/weight_versions.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
from aiohttp import web

from tests.models.tokens.chatml import ChatMl

PIECES = 3
"""Tokens of an answer that are computed between two looks at what the server was told."""


@dataclass
class SglangShape:
    """Answers `done`, a few tokens at a time, and does what a trainer tells it."""

    tokenizer: ChatMl = field(default_factory=ChatMl)
    version: str = "default"
    weights: str = "first"
    mode: str | None = None
    """How it is paused; None while it generates."""
    seconds: float = 0.0
    """Between two pieces of an answer."""
    running: int = 0
    aborts: int = 0
    """Counts up with each order to abort all requests."""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sessions: list[str] = field(default_factory=list[str])
    flushes: int = 0
    told: list[str] = field(default_factory=list[str])
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def app(self) -> web.Application:
        """Its routes."""
        app = web.Application()
        app.router.add_post("/generate", self._generate)
        app.router.add_post("/pause_generation", self._pause)
        app.router.add_post("/continue_generation", self._continue)
        app.router.add_post("/flush_cache", self._flush)
        app.router.add_post("/update_weight_version", self._update_version)
        app.router.add_post("/update_weights_from_disk", self._load)
        app.router.add_post("/release_memory_occupation", self._memory)
        app.router.add_get("/model_info", self._info)
        return app

    async def _generate(self, request: web.Request) -> web.Response:
        body = await request.json()
        assert body["return_logprob"] is True
        self.asked.append(body)
        self.sessions.append(request.headers["X-SMG-Routing-Key"])
        await self.until(lambda: self.mode is None)
        aborts, ids, spans = self.aborts, list[int](), list[dict[str, Any]]()
        self._count(1)
        try:
            said = [*self.tokenizer.encode("It is done and done.", add_special_tokens=False), self.tokenizer.end]
            while len(ids) < len(said) and self.aborts == aborts:
                ids += said[len(ids) : len(ids) + PIECES]
                if not spans or spans[-1]["version"] != self.version:
                    spans.append({"version": self.version, "start": spans[-1]["end"] if spans else 0})
                spans[-1]["end"] = len(ids)
                await anyio.sleep(self.seconds)
                if self.mode == "retract":
                    self._count(-1)
                    await self.until(lambda: self.mode is None)
                    self._count(1)
        finally:
            self._count(-1)
        meta: dict[str, Any] = {
            "finish_reason": {"type": "stop" if self.aborts == aborts else "abort"},
            "output_token_logprobs": [[-(1 + token % 64) / 64, token, None] for token in ids],
            "weight_version": self.version,
        }
        if len(spans) > 1:
            meta["weight_versions"] = spans
        return web.json_response({"text": "", "output_ids": ids, "meta_info": meta})

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something of this server's."""
        while not holds():
            await self._changed.wait()

    def _change(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    def _count(self, change: int) -> None:
        self.running += change
        self._change()

    async def _pause(self, request: web.Request) -> web.Response:
        self.mode = (await request.json()).get("mode", "abort")
        assert self.mode in ("abort", "retract", "in_place")
        if self.mode == "abort":
            self.aborts += 1
        await self.until(lambda: not self.running)
        return web.json_response({"message": "Generation paused successfully.", "status": "ok"})

    async def _continue(self, request: web.Request) -> web.Response:
        await request.json()
        self.mode = None
        self._change()
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
        self.weights = path
        return web.json_response({"success": True, "message": "", "num_paused_requests": 0})

    async def _memory(self, request: web.Request) -> web.Response:
        self.told.append(f"release {(await request.json())['tags']}")
        return web.Response()

    async def _info(self, request: web.Request) -> web.Response:
        return web.json_response({"model_path": self.weights, "weight_version": self.version})
