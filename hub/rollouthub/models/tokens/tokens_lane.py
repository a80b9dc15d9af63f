"""The tokens lane: a model behind the routes for token ids of a vLLM or SGLang server."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.chat_wire import check_extra
from rollouthub.models.direct.http_pool import open_model_pool
from rollouthub.models.endpoint import Endpoint, check_endpoint
from rollouthub.models.prices import find_price
from rollouthub.models.retry import Backoff
from rollouthub.models.tokens.chat_format import ChatFormat
from rollouthub.models.tokens.sglang_chat import SglangChatFormat
from rollouthub.models.tokens.sglang_chat_engine import TAKEN as SGLANG_TAKEN
from rollouthub.models.tokens.sglang_chat_engine import SglangChatEngine
from rollouthub.models.tokens.sglang_server import TOKENIZE, SglangServer
from rollouthub.models.tokens.token_engine import TokenEngine
from rollouthub.models.tokens.token_model import TokenModel
from rollouthub.models.tokens.token_server import TokenServer
from rollouthub.models.tokens.vllm_chat import VllmChatFormat
from rollouthub.models.tokens.vllm_engine import TAKEN as VLLM_TAKEN
from rollouthub.models.tokens.vllm_engine import VllmTokenEngine
from rollouthub.models.tokens.vllm_server import RENDER, VllmServer

TEMPLATE_FIELDS = frozenset(
    {
        "chat_template",
        "chat_template_kwargs",
        "documents",
        "reasoning_effort",
        "add_special_tokens",
        "include_reasoning",
    }
)
"""Request fields that control how a conversation is rendered, not how its answer is sampled."""


class TokenRoutes(Protocol):
    """How one kind of server renders, samples and parses."""

    taken: frozenset[str]
    """Request fields that a caller must not set."""

    @property
    def server(self) -> TokenServer:
        """The server."""
        ...

    async def check(self) -> None:
        """Check that the server has the routes.

        Raises:
            ConfigError: it lacks them.
        """
        ...

    def model(self, fields: Mapping[str, Any]) -> tuple[TokenEngine, ChatFormat]:
        """Engine and chat format for conversations that are rendered with these fields."""
        ...


class VllmRoutes:
    """vLLM's routes."""

    taken = VLLM_TAKEN

    def __init__(self, server: VllmServer) -> None:
        self.server, self._engine = server, VllmTokenEngine(server)

    async def check(self) -> None:
        """Check that the server has the routes.

        Raises:
            ConfigError: it lacks them.
        """
        await self.server.check_route(RENDER)

    def model(self, fields: Mapping[str, Any]) -> tuple[TokenEngine, ChatFormat]:
        """Engine and chat format for conversations that are rendered with these fields."""
        return self._engine, VllmChatFormat(self.server, fields)


class SglangRoutes:
    """SGLang's routes."""

    taken = SGLANG_TAKEN

    def __init__(self, server: SglangServer) -> None:
        self.server = server

    async def check(self) -> None:
        """Check that the server has the routes.

        Raises:
            ConfigError: it lacks them.
        """
        await self.server.check_route(TOKENIZE)

    def model(self, fields: Mapping[str, Any]) -> tuple[TokenEngine, ChatFormat]:
        """Engine and chat format for conversations that are rendered with these fields."""
        return SglangChatEngine(self.server, fields), SglangChatFormat(self.server, fields)


class TokensLane:
    """A model whose prompts are token ids: each begins with exactly the ids that were sampled before it."""

    def __init__(self, config: ModelConfig, routes: TokenRoutes) -> None:
        self.name = config.name
        self._routes, self._sampling = routes, config.sampling
        self._max_breaks = config.max_tries - 1
        self._price = find_price(config, routes.server.endpoint.base_url)
        self._models: dict[bytes, TokenModel] = {}
        """A `TokenModel` for each combination of template fields, nearly always one."""
        check_extra(config.sampling, routes.taken)

    def __repr__(self) -> str:
        return f"TokensLane({self._routes.server!r})"

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars, at the list price or a configured one; None if no price is known."""
        return None if self._price is None else self._price.cost(prompt_tokens, output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request, within its timeout, retries included; a stream's listener gets no pieces.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server failed in every try, or refused.
        """
        sampling = request.sampling.over(self._sampling)
        written = {name: value for name, value in sampling.extra.items() if name in TEMPLATE_FIELDS}
        extra = {name: value for name, value in sampling.extra.items() if name not in written}
        asked = replace(request, sampling=sampling.model_copy(update={"extra": extra}))
        reply = await self._model(written).generate(asked)
        if self._price is None:
            return reply
        return replace(reply, cost=self._price.cost(reply.usage.prompt_tokens, reply.usage.output_tokens))

    def _model(self, written: dict[str, Any]) -> TokenModel:
        key = msgspec.json.encode(written, order="deterministic")
        if (model := self._models.get(key)) is None:
            engine, chat = self._routes.model(written)
            model = TokenModel(self.name, engine, chat, max_breaks=self._max_breaks)
            self._models[key] = model
        return model

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings for reserved fields.

        Raises:
            ConfigError: a reserved field is set.
        """
        check_extra(sampling, self._routes.taken)

    async def check(self, timeout_seconds: float) -> None:
        """Check that the server serves the model, and has the routes for token ids.

        Raises:
            UsageError: the server cannot be reached.
            CredentialError: the server refuses the key.
            ConfigError: the server does not serve the model, or lacks the routes.
        """
        server = self._routes.server
        await check_endpoint(self.name, server.endpoint, server.listed_models, timeout_seconds)
        await self._routes.check()


@asynccontextmanager
async def open_tokens(
    config: ModelConfig,
    endpoint: Endpoint,
    *,
    backoff: Backoff | None = None,
    redact: Callable[[str], str] = str,
) -> AsyncGenerator[TokensLane]:
    """Open a model's connection pool; closed with the context."""
    async with open_model_pool(config, endpoint) as pool:
        kind = SglangServer if endpoint.dialect == "sglang" else VllmServer
        server = kind(config.name, endpoint, pool, max_tries=config.max_tries, backoff=backoff, redact=redact)
        routes = SglangRoutes(server) if isinstance(server, SglangServer) else VllmRoutes(server)
        yield TokensLane(config, routes)
