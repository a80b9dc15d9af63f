"""The openai lane: OpenAI's own client, with the direct lane's results, errors and retries."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import openai
from openai import AsyncAPIResponse

from rollouthub.errors import OverlongAnswer
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.http.server_events import EventReader, is_event_stream
from rollouthub.models.config import ModelConfig
from rollouthub.models.dialects import SESSION_HEADERS
from rollouthub.models.direct.answer_bounds import BadAnswer, TooLong
from rollouthub.models.direct.http_refusal import bad_answer
from rollouthub.models.direct.lane import POLICY_VERSION_HEADER
from rollouthub.models.direct.stream import ListenerFailed, hand_on
from rollouthub.models.endpoint import Endpoint, check_endpoint
from rollouthub.models.openai.api_wire import ApiWire
from rollouthub.models.openai.apis import Apis
from rollouthub.models.openai.optional_fields import OptionalFields
from rollouthub.models.openai.sdk_client import failed_try, open_client
from rollouthub.models.prices import find_price
from rollouthub.models.quota import Quota, parse_quota
from rollouthub.models.retry import Backoff, CallRetries, TryFailed
from rollouthub.tracing import HEADER as TRACE_HEADER
from rollouthub.tracing import TRACEPARENT

_VERSION_KEY = POLICY_VERSION_HEADER.lower()


class OpenAIModel:
    """A model behind OpenAI's client. `open_openai` makes one."""

    def __init__(
        self,
        config: ModelConfig,
        endpoint: Endpoint,
        client: openai.AsyncOpenAI,
        backoff: Backoff,
        redact: Callable[[str], str],
    ) -> None:
        self.name = config.name
        self.endpoint = endpoint
        self._client, self._redact = client, redact
        self._price = find_price(config, endpoint.base_url)
        self._apis = Apis(config, endpoint, self._price)
        self._owner = f"{config.name} at {endpoint.base_url}"
        self._retries = CallRetries(self._owner, config.max_tries, backoff, redact, keeps_cause=False)
        self._places = anyio.Semaphore(config.max_connections, fast_acquire=True)
        self._optional = OptionalFields(config.name, redact)
        self.quota: Quota | None = None
        """The provider's rate limits as reported with the last answer."""

    def __repr__(self) -> str:
        return f"OpenAIModel({self._owner!r})"

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars, at the list price or a configured one; None if no price is known."""
        return None if self._price is None else self._price.cost(prompt_tokens, output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request, within its timeout, retries included.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the server failed in every try, or refused.
        """
        api = self._apis.of_request(request)
        deadline = anyio.current_time() + request.timeout_seconds
        failures, optional = 0, self._optional.of_call()
        while True:
            body = api.body(request, optional.left_out)
            try:
                async with self._places:
                    reply = await self._try(api, body, request, deadline, failures)
                optional.answered()
                return reply
            except ListenerFailed as failed:
                raise failed.error from failed.error.__cause__
            except TryFailed as failed:
                if optional.leave_out(failed, body):
                    continue
                failures += 1
                await self._retries.wait(failed, failures, deadline, request.stream)

    async def _try(
        self, api: ApiWire, body: dict[str, Any], request: ModelRequest, deadline: float, failures: int
    ) -> ModelReply:
        """Make one try.

        Raises:
            TryFailed: there was no valid answer.
            ListenerFailed: the listener that takes the streamed pieces failed.
        """
        left = deadline - anyio.current_time()
        if left <= 0:
            raise TryFailed("the call's time was over before it could be tried")
        try:
            with anyio.fail_after(left):
                async with self._sent(api, body, request) as response:
                    return await self._answer(api, response, request, deadline, failures)
        except (ListenerFailed, TryFailed):
            raise
        except TooLong as error:
            raise OverlongAnswer(str(error)) from None
        except BadAnswer as error:
            key_name, sent_key = self.endpoint.key_name, self.endpoint.api_key is not None
            raise bad_answer(str(error), error.sent_error, key_name, sent_key=sent_key) from None
        except TimeoutError:
            raise TryFailed(f"no answer within the {left:.3g} s the call had left") from None
        except Exception as error:  # the only calls into the package, which raises its own errors and its client's
            if isinstance(error, openai.APIStatusError):
                self.quota = parse_quota(_headers(error.response))
            raise failed_try(error, self.endpoint, left) from error

    def _sent(
        self, api: ApiWire, body: dict[str, Any], request: ModelRequest
    ) -> AbstractAsyncContextManager[AsyncAPIResponse[Any]]:
        headers: dict[str, str] = {}
        if request.session and (name := SESSION_HEADERS[self.endpoint.dialect]):
            headers[name] = request.session
        if (parent := TRACEPARENT.get()) is not None:
            headers[TRACE_HEADER] = parent
        rest = {key: value for key, value in body.items() if key not in ("model", "messages", "input")}
        if api.api == "chat":
            return self._client.chat.completions.with_streaming_response.create(
                model=body["model"], messages=body["messages"], extra_body=rest, extra_headers=headers
            )
        return self._client.responses.with_streaming_response.create(
            model=body["model"], input=body["input"], extra_body=rest, extra_headers=headers
        )

    async def _answer(
        self, api: ApiWire, response: AsyncAPIResponse[Any], request: ModelRequest, deadline: float, failures: int
    ) -> ModelReply:
        headers = _headers(response.http_response)
        self.quota = parse_quota(headers)
        version = headers.get(_VERSION_KEY)
        if request.stream is None or not is_event_stream(headers):
            return api.parse(b"".join([piece async for piece in response.iter_bytes()]), request, version, failures)
        events, assembly = EventReader(), api.assembly(request)
        async for piece in response.iter_bytes():
            for data in events.feed(piece):
                delta = assembly.add(data)
                if delta is not None:
                    await hand_on(request.stream, delta, deadline)
                if assembly.is_over:
                    return assembly.reply(version, failures)
        for data in events.end():
            assembly.add(data)
            if assembly.is_over:
                return assembly.reply(version, failures)
        raise BadAnswer("the stream ended before the answer did")

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings: reserved fields, and what the API does not have.

        Raises:
            ConfigError: one of them is set.
        """
        self._apis.of(sampling).check_sampling(sampling)

    async def check(self, timeout_seconds: float) -> None:
        """Request the server's list of models, and check that the model is on it.

        Raises:
            UsageError: the server cannot be reached.
            CredentialError: the server refuses the key.
            ConfigError: the server does not serve the model.
        """
        await check_endpoint(self.name, self.endpoint, self._listed_models, timeout_seconds)

    async def _listed_models(self, timeout_seconds: float) -> tuple[int, bytes]:
        return await list_models(self._client, self.endpoint, timeout_seconds, self._redact)


async def list_models(
    client: openai.AsyncOpenAI, endpoint: Endpoint, timeout_seconds: float, redact: Callable[[str], str]
) -> tuple[int, bytes]:
    """Status and body of a server's list of models, the cheapest request of the API.

    Raises:
        TryFailed: there was no answer.
    """
    try:
        with anyio.fail_after(timeout_seconds):
            async with client.models.with_streaming_response.list() as listed:
                return listed.status_code, b"".join([piece async for piece in listed.iter_bytes()])
    except openai.APIStatusError as error:
        return error.status_code, error.response.content
    except TimeoutError:
        raise TryFailed(f"no answer within {timeout_seconds:.3g} s") from None
    except Exception as error:  # as above
        raise TryFailed(redact(str(failed_try(error, endpoint, timeout_seconds)))) from error


def _headers(response: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


@asynccontextmanager
async def open_openai(
    config: ModelConfig,
    endpoint: Endpoint,
    *,
    backoff: Backoff | None = None,
    redact: Callable[[str], str] = str,
) -> AsyncGenerator[OpenAIModel]:
    """Open a model through OpenAI's client; closed with the context.

    `redact` masks secrets in a server's messages before they become error messages.
    """
    async with open_client(endpoint, config.max_connections) as client:
        yield OpenAIModel(config, endpoint, client, backoff or Backoff(), redact)
