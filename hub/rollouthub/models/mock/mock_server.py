"""A server of the OpenAI chat-completions API in vLLM's format, for a mock model or any other model of the hub."""

import hmac
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import anyio
import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler
from mcp_types import Tool
from msgspec import Raw, Struct
from pydantic import ValidationError

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.event_loop import MOST_VALUES, is_crowded
from rollouthub.generation import Model, ModelReply, ModelRequest, Sampling
from rollouthub.http.aiohttp_guard import guarded
from rollouthub.http.asgi import Guard
from rollouthub.http.loopback import local_guard
from rollouthub.http.server_events import EVENT_STREAM
from rollouthub.messages import Delta, ReplyStream
from rollouthub.models.config import ModelConfig, split_name
from rollouthub.models.direct.chat_wire import WireMessage, WireTool, decode_tools, from_wire
from rollouthub.models.mock.development_routes import DevelopmentRoutes
from rollouthub.models.mock.mock_answer import LAST_EVENT, AnswerEvents, completion, stream_events
from rollouthub.models.mock.mock_model import MockModel, SimulatedRateLimit
from rollouthub.models.mock.pieces import pieces

MAX_REQUEST_BYTES = 256 * 2**20
"""Most bytes of a request, including media in base64."""
BODY_SECONDS = 60.0
"""Most seconds from a request's headers to the end of its body."""
_BACKLOG = 4096
_KNOWN_TOOLS = 256
_TRIED_AGAIN = frozenset({408, 409, 425, 429})
"""Statuses below 500 after which clients retry."""


class _StreamOptions(Struct):
    include_usage: bool = False


class MockChatRequest(Struct):
    """The fields of a request body that every model uses; further fields are passed on to models other than mocks."""

    model: str
    messages: list[WireMessage]
    tools: Raw = Raw(b"null")
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    stream: bool | None = False
    stream_options: _StreamOptions | None = None
    logprobs: bool | None = False
    return_token_ids: bool | None = False

    @property
    def wants_usage(self) -> bool:
        """Whether a stream is to end with the token counts."""
        return self.stream_options is not None and self.stream_options.include_usage

    def sampling(self, extra: dict[str, Any]) -> Sampling:
        """The request's sampling settings."""
        limit = self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens
        if limit is not None and limit < 1:
            raise ValueError(f"max_tokens must be at least 1, got {limit}.")
        plain = limit is None and self.seed is None and self.temperature is None and self.top_p is None
        if plain and not self.stop and not extra:
            return _PLAIN
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            max_tokens=limit,
            stop=None if self.stop is None else (self.stop,) if isinstance(self.stop, str) else tuple(self.stop),
            seed=self.seed,
            extra=extra,
        )


_PLAIN = Sampling()
_KNOWN_FIELDS = frozenset({*MockChatRequest.__struct_fields__, "n", "top_logprobs"})
_request_decoder = msgspec.json.Decoder(MockChatRequest)
_fields_decoder = msgspec.json.Decoder(dict[str, Any])
_tools_decoder = msgspec.json.Decoder(list[WireTool])


class MockRefused(Exception):
    """A request that the server refuses with an HTTP error."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


class ModelServer:
    """The HTTP handlers for one model."""

    def __init__(
        self,
        model: Model,
        served: Sequence[str],
        api_key: str | None = None,
        *,
        is_mock: bool = True,
        shows_tokens: bool | None = None,
        max_request_bytes: int = MAX_REQUEST_BYTES,
        control: DevelopmentRoutes | None = None,
    ) -> None:
        """`served` are the names under which the model can be requested; `control` has the routes for a trainer.

        A mock returns its tokens, which are bytes, and ignores unknown fields, as vLLM does. Any other model is passed
        all fields, and its tokens are returned only if `shows_tokens` is true.
        """
        self._is_mock = is_mock
        self._shows_tokens = is_mock if shows_tokens is None else shows_tokens
        self.control = DevelopmentRoutes() if is_mock else control
        """vLLM's development routes; None if the model cannot be controlled through this server."""
        self._max_request_bytes = max_request_bytes
        self._model, self._served = model, tuple(dict.fromkeys(served))
        self._authorization = None if api_key is None else f"Bearer {api_key}".encode()
        self._tools: dict[bytes, tuple[Tool, ...]] = {}
        self._numbers = count(1)
        self._started = int(time.time())

    def application(self, guard: Guard | None = None) -> web.Application:
        """The server as an aiohttp application; `guard` decides which requests are admitted, None admits all."""
        guards = () if guard is None else (guarded(guard),)
        middlewares = (*guards, self._authorized)
        app = web.Application(client_max_size=self._max_request_bytes, middlewares=middlewares)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/health", self.health)
        if self.control is not None:
            self.control.add_to(app.router)
        return app

    async def health(self, request: web.Request) -> web.Response:
        """The liveness route."""
        return web.Response()

    async def models(self, request: web.Request) -> web.Response:
        """The list of served names."""
        listed = [
            {"id": name, "object": "model", "created": self._started, "owned_by": "rollouthub", "root": name}
            for name in self._served
        ]
        return _json(msgspec.json.encode({"object": "list", "data": listed}))

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Answer a conversation."""
        try:
            asked, ours = self._parse(await self._body(request))
            if asked.stream and not self._is_mock:
                return await self._pass_on(request, asked, ours)
            if self._shows_tokens and not self._is_mock:
                ours = replace(ours, session=request.headers.get("X-Session-ID", ""))
            reply = await self._generate(ours)
        except MockRefused as error:
            return _refusal(error.status, error.kind, str(error))
        except ContextLimitError as error:
            return _refusal(400, "BadRequestError", str(error))
        except SimulatedRateLimit as error:
            headers = {"Retry-After": f"{error.retry_after_seconds or 0:g}"}
            return _refusal(429, "RateLimitError", str(error), headers)
        except ModelError as error:
            return _failure(error)
        number = next(self._numbers)
        with_ids = self._shows_tokens and bool(asked.return_token_ids)
        with_logprobs = self._shows_tokens and bool(asked.logprobs)
        if not asked.stream:
            body = completion(reply, number, self._started, asked.model, with_ids, with_logprobs)
            version = {} if reply.policy_version is None else {"X-Policy-Version": str(reply.policy_version)}
            return _json(body, version if self.control is None else self.control.headers)
        response = _event_stream()
        await response.prepare(request)
        for event in stream_events(
            reply, number, self._started, asked.model, with_ids, with_logprobs, asked.wants_usage
        ):
            await response.write(event)
        await response.write_eof()
        return response

    async def _generate(self, ours: ModelRequest) -> ModelReply:
        return await (self.control.generate(self._model, ours) if self.control else self._model.generate(ours))

    async def _pass_on(self, request: web.Request, asked: MockChatRequest, ours: ModelRequest) -> web.StreamResponse:
        """Answer with a stream, sending each piece when the model yields it.

        Raises:
            ModelError: the model failed before the first piece.
        """
        events = AnswerEvents(next(self._numbers), self._started, asked.model)
        response = _event_stream()

        async def write(delta: Delta) -> None:
            if not response.prepared:
                await response.prepare(request)
                await response.write(events.begin())
            await response.write(events.delta(delta))

        stream = ReplyStream(write)
        try:
            reply = await self._generate(replace(ours, stream=stream))
        except ModelError as error:
            if not stream.has_begun:
                raise
            await response.write(events.fail(type(error).__name__, str(error), _status(error)))
        else:
            if not stream.has_begun:  # not every model streams
                await write(Delta())
                for delta in pieces(reply.message):
                    await write(delta)
            await response.write(events.finish(reply.finish_reason))
            if asked.wants_usage:
                await response.write(events.usage(reply))
        await response.write(LAST_EVENT)
        await response.write_eof()
        return response

    async def _body(self, request: web.Request) -> bytes:
        """Read a request's body.

        Raises:
            MockRefused: the body is too large, or arrives too slowly.
        """
        try:
            with anyio.fail_after(BODY_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge:
            most = f"The body is larger than {self._max_request_bytes >> 20} MiB."
            raise MockRefused(413, "RequestEntityTooLarge", most) from None
        except TimeoutError:
            raise MockRefused(
                408, "RequestTimeout", f"The body did not arrive within {BODY_SECONDS:g} seconds."
            ) from None

    @web.middleware
    async def _authorized(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path != "/health" and not self._is_allowed(request):
            return _refusal(401, "Unauthorized", "Unauthorized")
        return await handler(request)

    def _is_allowed(self, request: web.Request) -> bool:
        if self._authorization is None:
            return True
        shown = request.headers.get("Authorization", "").encode(errors="surrogateescape")
        return hmac.compare_digest(shown, self._authorization)

    def _parse(self, body: bytes) -> tuple[MockChatRequest, ModelRequest]:
        """Validate a request body.

        Raises:
            MockRefused: the body is invalid; says why.
        """
        media: dict[str, bytes] = {}
        try:
            if is_crowded(body):
                raise ValueError(f"The body holds more than {MOST_VALUES:,} values.")
            asked = _request_decoder.decode(body)
            if asked.model not in self._served:
                aliases = ", ".join(self._served)
                raise MockRefused(
                    404, "NotFoundError", f"The model `{asked.model}` does not exist. Valid aliases: {aliases}."
                )
            if not asked.messages:
                raise ValueError("Cannot answer an empty conversation. Provide at least one message.")
            messages = [from_wire(message, media) for message in asked.messages]
            fields: dict[str, Any] = {} if self._is_mock else _fields_decoder.decode(body)
            extra = {name: value for name, value in fields.items() if name not in _KNOWN_FIELDS}
            return asked, ModelRequest(messages, self._known_tools(asked.tools), asked.sampling(extra), media=media)
        except ValidationError as error:
            raise MockRefused(400, "Bad Request", str(error.errors(include_url=False, include_input=False))) from None
        except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
            raise MockRefused(400, "Bad Request", str(error)) from None

    def _known_tools(self, raw: Raw) -> tuple[Tool, ...]:
        """Decoded tools, cached by their JSON, because every episode of an environment sends the same."""
        key = bytes(raw)
        tools = self._tools.get(key)
        if tools is None:
            if len(self._tools) >= _KNOWN_TOOLS:
                self._tools.clear()
            tools = self._tools[key] = () if key == b"null" else decode_tools(_tools_decoder.decode(raw))
        return tools


def _event_stream() -> web.StreamResponse:
    return web.StreamResponse(headers={"Content-Type": EVENT_STREAM, "Cache-Control": "no-cache"})


def _json(body: bytes, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(body=body, content_type="application/json", headers=headers)


def _failure(error: ModelError) -> web.Response:
    """A model's error as an HTTP response for the client."""
    status = _status(error)
    after = error.retry_after_seconds
    headers = None if after is None else {"Retry-After": f"{after:g}"}
    return _refusal(status, type(error).__name__, str(error), headers)


def _status(error: ModelError) -> int:
    """The error's HTTP status, changed if necessary so that a client retries exactly the retryable errors."""
    status = error.status if error.status is not None and error.status >= 400 else 502
    return 422 if not error.retryable and (status in _TRIED_AGAIN or status >= 500) else status


def _refusal(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    body = msgspec.json.encode({"error": {"message": message, "type": kind, "param": None, "code": status}})
    return web.Response(body=body, status=status, content_type="application/json", headers=headers)


async def serve_mock(
    model_name: str, host: str, port: int, *, ready: Callable[[int], None], api_key: str | None = None
) -> None:
    """Serve a mock model until cancelled; port 0 picks a free port, with which `ready` is called.

    The model is served as `mock`, as its kind (`solver`, `mock/solver`), and under its whole name.

    Raises:
        ConfigError: the name is invalid.
        OSError: the port is taken.
    """
    model = MockModel(ModelConfig(name=model_name))
    kind = split_name(model_name)[1].partition("?")[0]
    server = ModelServer(model, ("mock", kind, f"mock/{kind}", model_name), api_key)
    async with listening(server, host, port) as bound:
        ready(bound)
        await anyio.sleep_forever()


@asynccontextmanager
async def listening(server: ModelServer, host: str, port: int) -> AsyncGenerator[int]:
    """Serve within the context; yields the port. On the loopback, requests from web pages in a browser are refused.

    Raises:
        OSError: the port is taken.
    """
    # Whoever hangs up wants no answer any more: behind it may be a model that costs money.
    application = server.application(local_guard(host))
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, backlog=_BACKLOG)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        with anyio.CancelScope(shield=True), anyio.move_on_after(5):
            await runner.cleanup()
