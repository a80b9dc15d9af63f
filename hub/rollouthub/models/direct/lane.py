"""The direct lane: a client of the OpenAI chat-completions API over the hub's own pooled HTTP client.

The measured hot path: two calls a rollout, thousands in flight.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from yarl import URL

from rollouthub.errors import OverlongAnswer
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.http.exchange import MAX_ANSWER_BYTES, HttpPool
from rollouthub.http.no_answer import AnswerTooSlow, NoAnswer
from rollouthub.http.server_events import is_event_stream
from rollouthub.models.config import ModelConfig
from rollouthub.models.dialects import SESSION_HEADERS, adapter_fields, dialect_wire
from rollouthub.models.direct.answer_bounds import BadAnswer, TooLong
from rollouthub.models.direct.chat_wire import ToolSchemas, check_extra, write_sampling
from rollouthub.models.direct.completion import Answer, as_reply, parse_answer, pricing
from rollouthub.models.direct.http_pool import (
    MAX_REFUSAL_BYTES,
    failed_try,
    list_models,
    open_model_pool,
)
from rollouthub.models.direct.http_refusal import bad_answer, refusal
from rollouthub.models.direct.stream import ListenerFailed, read_stream
from rollouthub.models.endpoint import Dialect, Endpoint, check_endpoint
from rollouthub.models.prices import find_price
from rollouthub.models.quota import Quota, parse_quota
from rollouthub.models.retry import Backoff, CallRetries, TryFailed
from rollouthub.tracing import HEADER as TRACE_HEADER
from rollouthub.tracing import TRACEPARENT

logger = logging.getLogger(__name__)

POLICY_VERSION_HEADER = "X-Policy-Version"
"""Response header with the policy version; without it, the body's `weight_version` is used."""

_VERSION_KEY = POLICY_VERSION_HEADER.lower()
ASKED: Mapping[Dialect, Mapping[str, Any]] = {
    "vllm": {"logprobs": True, "return_token_ids": True},
    # `return_token_ids` is refused with a stream; these two are taken in both (serving_chat.py of SGLang 0.5.23).
    "sglang": {"logprobs": True, "return_input_ids_in_sglext": True, "return_output_ids_in_sglext": True},
    "openai": {},
}
"""Request fields for token ids and log-probabilities."""
_OURS = frozenset({"model", "messages", "tools", "stream", "stream_options", "n"})


class DirectModel:
    """A model behind the OpenAI API. `open_direct` makes one."""

    def __init__(
        self,
        config: ModelConfig,
        endpoint: Endpoint,
        pool: HttpPool,
        backoff: Backoff,
        redact: Callable[[str], str],
    ) -> None:
        self.name = config.name
        self.endpoint = endpoint
        self._config, self._pool, self._redact = config, pool, redact
        self._price = find_price(config, endpoint.base_url)
        self._owner = f"{config.name} at {endpoint.base_url}"
        self._retries = CallRetries(self._owner, config.max_tries, backoff, redact)
        self._url = URL(endpoint.base_url + "/chat/completions")
        self._tools = ToolSchemas()
        self._encode = msgspec.json.Encoder().encode
        self._max_tokens_field = "max_completion_tokens" if endpoint.is_openai else "max_tokens"
        self._base: dict[str, Any] = {"model": endpoint.served_name}
        self._base |= ASKED[endpoint.dialect]
        self._session_header = SESSION_HEADERS[endpoint.dialect]
        check_extra(config.sampling, _OURS)
        write_sampling(self._base, config.sampling, _OURS, self._max_tokens_field)
        self._logged: set[str] = set()
        self.quota: Quota | None = None
        """The provider's rate limits as reported with the last answer."""

    def __repr__(self) -> str:
        return f"DirectModel({self._owner!r})"

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars, at the list price or a configured one; None if no price is known."""
        return None if self._price is None else self._price.cost(prompt_tokens, output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request, within its timeout, retries included.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server failed in every try, or refused.
        """
        body = self._body(request)
        headers = {self._session_header: request.session} if request.session and self._session_header else {}
        if (parent := TRACEPARENT.get()) is not None:
            headers[TRACE_HEADER] = parent
        left = request.timeout_seconds
        deadline = anyio.current_time() + left
        failures = 0
        while True:
            try:
                answer, version = await self._try(body, headers, left, deadline, request)
                return self._reply(answer, version, len(request.messages), failures)
            except ListenerFailed as failed:
                raise failed.error from failed.error.__cause__
            except TryFailed as failed:
                failures += 1
                await self._retries.wait(failed, failures, deadline, request.stream)
            left = deadline - anyio.current_time()

    def _body(self, request: ModelRequest) -> bytes:
        """The request's body as JSON."""
        endpoint, media = self.endpoint, request.media
        body = dict(self._base)
        if request.adapter:
            body |= adapter_fields(request.adapter, endpoint.dialect, self._owner)
        body["messages"] = [dialect_wire(message, media, endpoint.dialect) for message in request.messages]
        if request.tools:
            body["tools"] = self._tools.encoded(request.tools)
        if request.stream is not None:
            body["stream"], body["stream_options"] = True, {"include_usage": True}
        write_sampling(body, request.sampling, _OURS, self._max_tokens_field)
        return self._encode(body)

    async def _try(
        self, body: bytes, headers: dict[str, str], left: float, deadline: float, request: ModelRequest
    ) -> tuple[Answer, str | None]:
        """Make one try, within the `left` seconds of the call: returns the answer and its policy version header.

        Raises:
            TryFailed: there was no valid answer.
            ListenerFailed: the listener that takes the streamed pieces failed.
        """
        if left <= 0:
            raise TryFailed("the call's time was over before it could be tried")
        endpoint, stream = self.endpoint, request.stream
        try:
            async with self._pool.open("POST", self._url, body, headers, seconds=left) as response:
                headers = response.headers
                self.quota = parse_quota(headers)
                if response.status != 200:
                    words, sent_key = await response.beginning(MAX_REFUSAL_BYTES), endpoint.api_key is not None
                    raise refusal(response.status, headers, words, endpoint.key_name, sent_key=sent_key)
                if stream is not None and is_event_stream(headers):
                    assembly = await read_stream(response, stream, len(request.messages), deadline, MAX_ANSWER_BYTES)
                    answer = assembly.answer()
                    if assembly.has_lost_ids:
                        self._warn_once("leaves token ids out of its streams; those it gives there are dropped")
                else:
                    body = await response.read(MAX_ANSWER_BYTES)
                    answer = parse_answer(body, with_bytes=request.wants_text_ends)
                return answer, headers.get(_VERSION_KEY)
        except TooLong as error:
            raise OverlongAnswer(str(error)) from None
        except BadAnswer as error:
            raise bad_answer(
                str(error), error.sent_error, endpoint.key_name, sent_key=endpoint.api_key is not None
            ) from None
        except AnswerTooSlow as error:
            raise TryFailed(f"no answer within the {left:.3g} s the call had left") from error
        except NoAnswer as error:
            raise failed_try(error) from error

    def _reply(self, answer: Answer, version: str | None, turn: int, failures: int) -> ModelReply:
        try:
            reply, is_dropped = as_reply(
                answer, turn=turn, version_header=version, price=pricing(self._price, answer), retries=failures
            )
        except TooLong as error:
            raise OverlongAnswer(str(error)) from None
        except BadAnswer as error:
            raise TryFailed(str(error), status=200) from None
        if is_dropped:
            self._warn_once("gives other numbers of logprobs than of token ids; its logprobs are dropped")
        return reply

    def _warn_once(self, problem: str) -> None:
        if problem not in self._logged:
            self._logged.add(problem)
            logger.warning("%s %s", self.name, problem)

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings for reserved fields; only the server knows which others it accepts.

        Raises:
            ConfigError: a reserved field is set.
        """
        check_extra(sampling, _OURS)

    async def check(self, timeout_seconds: float) -> None:
        """Request the server's list of models, and check that the model is on it.

        Raises:
            UsageError: the server cannot be reached.
            CredentialError: the server refuses the key.
            ConfigError: the server does not serve the model.
        """
        await check_endpoint(self.name, self.endpoint, self.listed_models, timeout_seconds)

    async def listed_models(self, timeout_seconds: float) -> tuple[int, bytes]:
        """Status and body of the server's list of models, the cheapest request of the API.

        Raises:
            TryFailed: there was no answer.
        """
        return await list_models(self._pool, self.endpoint.base_url, timeout_seconds, self._redact)


@asynccontextmanager
async def open_direct(
    config: ModelConfig,
    endpoint: Endpoint,
    *,
    backoff: Backoff | None = None,
    redact: Callable[[str], str] = str,
) -> AsyncGenerator[DirectModel]:
    """Open a model's connection pool; closed with the context.

    `redact` masks secrets in a server's messages before they become error messages.
    """
    async with open_model_pool(config, endpoint) as pool:
        yield DirectModel(config, endpoint, pool, backoff or Backoff(), redact)
