"""`BatchModel`: a model whose calls wait for a batch, at half the price, as the openai lane writes and reads them."""

import hashlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import openai

from rollouthub.errors import OverlongAnswer
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.models.batch_run import BatchRun
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.answer_bounds import BadAnswer, TooLong
from rollouthub.models.direct.http_pool import MAX_REFUSAL_BYTES
from rollouthub.models.direct.http_refusal import bad_answer, refusal
from rollouthub.models.endpoint import Endpoint, check_endpoint
from rollouthub.models.openai.api_wire import ApiWire
from rollouthub.models.openai.apis import Apis
from rollouthub.models.openai.batch_answers import BatchedAnswer
from rollouthub.models.openai.batch_queue import BatchQueue, open_batch_queue
from rollouthub.models.openai.batch_server import BatchServer
from rollouthub.models.openai.lane import list_models
from rollouthub.models.openai.optional_fields import OptionalFields
from rollouthub.models.openai.sdk_client import open_client
from rollouthub.models.prices import find_price
from rollouthub.models.retry import TryFailed


class BatchModel:
    """A model behind the Batch API. `open_batched` makes one."""

    def __init__(
        self,
        config: ModelConfig,
        endpoint: Endpoint,
        client: openai.AsyncOpenAI,
        queue: BatchQueue,
        redact: Callable[[str], str],
    ) -> None:
        self.name = config.name
        self._endpoint, self._client, self._queue, self._redact = endpoint, client, queue, redact
        price = find_price(config, endpoint.base_url)
        self._price = None if price is None else price.halved
        self._apis = Apis(config, endpoint, self._price)
        self._owner = f"{config.name} at {endpoint.base_url}, in batches"
        # Nothing is sent back in a later turn.
        self._optional = OptionalFields(config.name, redact, ("encrypted_reasoning",))

    def __repr__(self) -> str:
        return f"BatchModel({self._owner!r})"

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars, at half the list price or a configured one; None if no price is known."""
        return None if self._price is None else self._price.cost(prompt_tokens, output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request when its batch is over; neither its timeout nor deadlines of the episode apply.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server refused, or the batch has no answer.
        """
        api = self._apis.of_request(request)
        request, optional = replace(request, stream=None), self._optional.of_call()
        while True:
            body = api.body(request, optional.left_out)
            try:
                reply = self._reply(api, request, await self._queue.ask(api.path, body))
                optional.answered()
                return reply
            except TryFailed as failed:
                if not optional.leave_out(failed, body):
                    raise failed.as_error(self._owner, 1, self._redact) from None

    def _reply(self, api: ApiWire, request: ModelRequest, answer: BatchedAnswer) -> ModelReply:
        key_name = self._endpoint.key_name
        if answer.code is not None:
            words = answer.body[:300].decode(errors="replace")
            raise TryFailed(f"its batch did not answer it: {words}", is_retryable=answer.code != "batch_cancelled")
        if answer.status != 200:
            raise refusal(answer.status, {}, answer.body[:MAX_REFUSAL_BYTES], key_name, sent_key=True)
        try:
            return api.parse(answer.body, request, None, 0)
        except TooLong as error:
            raise OverlongAnswer(str(error)) from None
        except BadAnswer as error:
            raise bad_answer(str(error), error.sent_error, key_name, sent_key=True) from None

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings, as the openai lane does."""
        self._apis.of(sampling).check_sampling(sampling)

    async def check(self, timeout_seconds: float) -> None:
        """Request the server's list of models, and check that the model is on it."""

        async def listed(seconds: float) -> tuple[int, bytes]:
            return await list_models(self._client, self._endpoint, seconds, self._redact)

        await check_endpoint(self.name, self._endpoint, listed, timeout_seconds)


@asynccontextmanager
async def open_batched(
    config: ModelConfig, endpoint: Endpoint, run: BatchRun, *, redact: Callable[[str], str] = str
) -> AsyncGenerator[BatchModel]:
    """Open a batched model; models of one name at one address share their batches."""
    key = (endpoint.served_name, endpoint.base_url)
    async with open_client(endpoint, config.max_connections) as client:
        if (shared := run.queues.get(key)) is not None:
            yield BatchModel(config, endpoint, client, shared, redact)
            return
        server = BatchServer(client, endpoint, redact, run.note)
        folder = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
        async with open_batch_queue(server, run.directory / folder, run) as queue:
            run.queues[key] = queue
            try:
                yield BatchModel(config, endpoint, client, queue, redact)
            finally:
                del run.queues[key]
