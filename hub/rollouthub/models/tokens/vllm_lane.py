"""The tokens lane: a model behind a vLLM server's routes for token ids."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec

from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.chat_wire import check_extra
from rollouthub.models.direct.http_pool import open_model_pool
from rollouthub.models.endpoint import Endpoint, check_endpoint
from rollouthub.models.prices import find_price
from rollouthub.models.retry import Backoff
from rollouthub.models.tokens.token_model import TokenModel
from rollouthub.models.tokens.vllm_chat import VllmChatFormat
from rollouthub.models.tokens.vllm_engine import RESERVED, VllmTokenEngine
from rollouthub.models.tokens.vllm_server import VllmServer

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


class TokensLane:
    """A model whose prompts are token ids: each begins with exactly the ids that were sampled before it."""

    def __init__(self, config: ModelConfig, server: VllmServer) -> None:
        self.name = config.name
        self._server, self._sampling = server, config.sampling
        self._engine, self._max_breaks = VllmTokenEngine(server), config.max_tries - 1
        self._price = find_price(config, server.endpoint.base_url)
        self._models: dict[bytes, TokenModel] = {}
        """A `TokenModel` for each combination of template fields, nearly always one."""
        check_extra(config.sampling, RESERVED)

    def __repr__(self) -> str:
        return f"TokensLane({self._server!r})"

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
            chat = VllmChatFormat(self._server, written)
            model = TokenModel(self.name, self._engine, chat, max_breaks=self._max_breaks)
            self._models[key] = model
        return model

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings for reserved fields.

        Raises:
            ConfigError: a reserved field is set.
        """
        check_extra(sampling, RESERVED)

    async def check(self, timeout_seconds: float) -> None:
        """Check that the server serves the model, and has the routes for token ids.

        Raises:
            UsageError: the server cannot be reached.
            CredentialError: the server refuses the key.
            ConfigError: the server does not serve the model, or lacks the routes.
        """
        server = self._server
        await check_endpoint(self.name, server.endpoint, server.listed_models, timeout_seconds)
        await server.check_routes()


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
        server = VllmServer(config.name, endpoint, pool, max_tries=config.max_tries, backoff=backoff, redact=redact)
        yield TokensLane(config, server)
