"""The litellm lane: calls every provider that litellm supports, with the direct lane's results, errors and retries.

It does not stream: a stream's listener gets the whole answer at the end. A stream through litellm could not be recorded
faithfully: litellm omits the prompt's token ids and invents token counts that the server does not send; older versions
also omit the token ids of the last chunk, and report a truncated stream as finished (`stop`).
"""

import logging
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
import msgspec

from rollouthub.errors import ConfigError, ModelError, OverlongAnswer
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.http.dialler import CONNECT_SECONDS
from rollouthub.messages import user
from rollouthub.models.config import ModelConfig
from rollouthub.models.direct.answer_bounds import BadAnswer, TooLong
from rollouthub.models.direct.chat_wire import ToolSchemas, check_extra, to_wire, write_sampling
from rollouthub.models.direct.completion import MOST_DOLLARS, Answer, as_reply
from rollouthub.models.direct.lane import POLICY_VERSION_HEADER, open_direct
from rollouthub.models.endpoint import Endpoint, check_endpoint
from rollouthub.models.litellm.http_clients import bound_clients, keep_clients
from rollouthub.models.litellm.package import NOBODY, load_litellm, own_parameters, silence
from rollouthub.models.prices import find_price, is_own_service
from rollouthub.models.provider_names import ProviderModel
from rollouthub.models.quota import Quota, parse_quota
from rollouthub.models.retry import Backoff, CallRetries, TryFailed
from rollouthub.tracing import HEADER as TRACE_HEADER
from rollouthub.tracing import TRACEPARENT

logger = logging.getLogger(__name__)

_OURS = frozenset(
    {
        "model",
        "messages",
        "tools",
        "stream",
        "stream_options",
        "n",
        "drop_params",
        "base_url",
        "timeout",
        "deployment_id",
        "extra_headers",
    }
)
_VERSION_KEY = "llm_provider-" + POLICY_VERSION_HEADER.lower()
_LONGEST_SECONDS = 24 * 3600.0
# Some clients refuse to be made without a key, also where the server wants none.
_NO_KEY = "none"


class LitellmModel:
    """A model behind `litellm.acompletion`. `open_litellm` makes one."""

    def __init__(
        self,
        litellm: Any,
        config: ModelConfig,
        identity: ProviderModel,
        base_url: str | None,
        endpoint: Endpoint | None,
        backoff: Backoff,
        redact: Callable[[str], str],
    ) -> None:
        from rollouthub.models.litellm.failure import failed_try, unsupported  # need litellm's own dependencies

        self.name = config.name
        self._litellm, self._config, self._identity, self._endpoint = litellm, config, identity, endpoint
        self._redact, self._failed_try, self._unsupported = redact, failed_try, unsupported
        self._owner = f"{config.name} at {base_url}" if base_url else config.name
        self._retries = CallRetries(self._owner, config.max_tries, backoff, redact, keeps_cause=False)
        self.quota: Quota | None = None
        """The provider's rate limits as reported with the last answer."""
        self._is_vllm = endpoint is not None and endpoint.gives_ids
        self._price = find_price(config, base_url)
        has_prices = config.price_prompt is not None or config.price_output is not None
        self._trusts_cost = not has_prices and is_own_service(identity.provider, base_url)
        self._taken = _OURS | own_parameters()
        self._silence = silence()
        self._places = anyio.Semaphore(config.max_connections, fast_acquire=True)
        self._tools = ToolSchemas()
        self._has_warned = False
        arguments: dict[str, Any] = {
            "model": config.name,
            "num_retries": 0,
            "max_retries": 0,
            "drop_params": False,
            "timeout": _timeout(),
            **identity.arguments,
        }
        if base_url is not None:
            arguments["base_url"] = base_url
        if endpoint is not None:
            arguments["api_key"] = endpoint.api_key or _NO_KEY
        if self._is_vllm:
            arguments |= {"logprobs": True, "return_token_ids": True}
        self._sends_key = endpoint is None or endpoint.api_key is not None
        check_extra(config.sampling, self._taken)
        write_sampling(arguments, config.sampling, self._taken)
        self._arguments = arguments

    def __repr__(self) -> str:
        return f"LitellmModel({self._owner!r})"

    def cost_of(self, prompt_tokens: int, output_tokens: int) -> float | None:
        """Cost of a call in US dollars, at the list price or a configured one; None if no price is known."""
        return None if self._price is None else self._price.cost(prompt_tokens, output_tokens)

    async def generate(self, request: ModelRequest) -> ModelReply:
        """Answer one request, within its timeout, retries included.

        Raises:
            ContextLimitError: the conversation is too long.
            ModelError: the provider failed in every try, or refused.
        """
        deadline = anyio.current_time() + request.timeout_seconds
        failures = 0
        while True:
            try:
                async with self._places:
                    response = await self._try(self._asked(request), deadline)
                return self._reply(response, len(request.messages), failures)
            except TryFailed as failed:
                failures += 1
                await self._retries.wait(failed, failures, deadline)

    def _asked(self, request: ModelRequest) -> dict[str, Any]:
        """The arguments of one litellm call. Built anew for each try, because litellm may modify them."""
        asked = dict(self._arguments)
        if request.adapter:
            raise ModelError(
                f"{self._owner}: adapters such as {request.adapter!r} are asked for by the direct and tokens lanes",
                retryable=False,
            )
        wire = [to_wire(message, request.media, with_reasoning=self._is_vllm) for message in request.messages]
        asked["messages"] = msgspec.to_builtins(wire)
        if request.tools:
            asked["tools"] = msgspec.json.decode(self._tools.encoded(request.tools))
        if request.session and self._is_vllm:
            asked["extra_headers"] = {"X-Session-ID": request.session}
        if (parent := TRACEPARENT.get()) is not None and self._endpoint is not None:
            asked["extra_headers"] = {**asked.get("extra_headers", {}), TRACE_HEADER: parent}
        write_sampling(asked, request.sampling, self._taken)
        return asked

    async def _try(self, asked: dict[str, Any], deadline: float) -> Any:
        """Make one try; returns litellm's response.

        Raises:
            TryFailed: there was no response.
        """
        left = deadline - anyio.current_time()
        if left <= 0:
            raise TryFailed("the call's time was over before it could be tried")
        # What litellm takes for a call within a call of its own it neither logs nor bills; ours does both.
        token = self._silence.set(True)
        try:
            with anyio.fail_after(left):
                return await self._litellm.acompletion(**asked)
        except TimeoutError:
            raise TryFailed(f"no answer within the {left:.3g} s the call had left") from None
        except Exception as error:  # the only calls into litellm, which raises its own and its providers' errors
            raise self._failed_try(
                self._litellm, error, self._identity.key_name, sent_key=self._sends_key, left_seconds=left
            ) from error
        finally:
            self._silence.reset(token)

    def _reply(self, response: Any, turn: int, failures: int) -> ModelReply:
        hidden = cast(dict[str, Any], getattr(response, "_hidden_params", None) or {})
        headers = cast(Mapping[str, str], hidden.get("additional_headers") or {})
        self.quota = parse_quota({name: str(value) for name, value in headers.items()})
        try:
            answer = _answer(response)
            reply, is_dropped = as_reply(
                answer,
                turn=turn,
                version_header=headers.get(_VERSION_KEY),
                price=self._pricing(answer, hidden.get("response_cost")),
                retries=failures,
            )
        except TooLong as error:
            raise OverlongAnswer(str(error)) from None
        except BadAnswer as error:
            raise TryFailed(str(error), status=200) from None
        if is_dropped and not self._has_warned:
            self._has_warned = True
            logger.warning("%s gives other numbers of logprobs than of token ids; its logprobs are dropped", self.name)
        return reply

    def _pricing(self, answer: Answer, litellms: object) -> Callable[[int, int], float | None]:
        """A function from an answer's tokens to US dollars: litellm's own cost where it is reliable, else the price
        list.

        litellm reports 0 both for free models and for unknown prices.
        """
        price = self._price
        if self._trusts_cost and isinstance(litellms, int | float) and 0 <= litellms <= MOST_DOLLARS:
            cost = float(litellms)
            if cost > 0 or price is not None:
                return lambda prompt_tokens, output_tokens: cost
        if price is None:
            return lambda prompt_tokens, output_tokens: None
        details = answer.usage.prompt_tokens_details if answer.usage is not None else None
        cached = (details.cached_tokens or 0) if details is not None else 0
        return lambda prompt_tokens, output_tokens: price.cost(prompt_tokens, output_tokens, cached)

    async def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings by a dry run: litellm builds a request, which is not sent, and rejects parameters
        that the provider does not accept.

        Raises:
            ConfigError: a reserved field is set, or the provider does not accept a parameter.
        """
        check_extra(sampling, self._taken)
        dry = {**self._asked(ModelRequest((user("none"),), sampling=sampling, timeout_seconds=1.0)), **NOBODY}
        token = self._silence.set(True)
        try:
            await self._litellm.acompletion(**dry)
        except self._litellm.UnsupportedParamsError as error:
            raise ConfigError(f"{self.name!r}: {self._unsupported(error)}") from None
        except Exception:  # litellm's; what else is wrong with a call shows when one is made
            logger.debug("litellm does not write a request without sending it", exc_info=True)
        finally:
            self._silence.reset(token)

    async def check(self, timeout_seconds: float) -> None:
        """Request the list of models of a server with the OpenAI API; other providers are not checked before the first
        call.

        Raises:
            UsageError: the server cannot be reached.
            CredentialError: the server refuses the key.
            ConfigError: the server does not serve the model.
        """
        endpoint = self._endpoint
        if endpoint is not None:
            async with open_direct(self._config, endpoint, redact=self._redact) as direct:
                await check_endpoint(self.name, endpoint, direct.listed_models, timeout_seconds)


def _answer(response: Any) -> Answer:
    """litellm's response as an `Answer` of the OpenAI API.

    Raises:
        BadAnswer: the response is not an answer, or the answer was aborted.
    """
    try:
        answer = msgspec.convert(response, Answer, from_attributes=True)
        first = response.choices[0]
    except (msgspec.ValidationError, AttributeError, IndexError, TypeError) as error:
        raise BadAnswer(f"the answer is not a chat completion ({error})") from None
    choice, own = answer.choices[0], cast(dict[str, Any], getattr(first, "provider_specific_fields", None) or {})
    said = cast(dict[str, Any], getattr(first.message, "provider_specific_fields", None) or {})
    # litellm maps what it does not know to `stop`, and keeps what the provider said.
    choice.finish_reason = own.get("native_finish_reason", choice.finish_reason)
    if choice.finish_reason in ("abort", "error"):
        raise BadAnswer("the server broke off the answer")
    choice.token_ids = own.get("token_ids", choice.token_ids)
    choice.message.refusal = said.get("refusal", choice.message.refusal)
    usage = answer.usage
    if usage is not None and choice.token_ids and not usage.prompt_tokens and not usage.completion_tokens:
        answer.usage = None  # litellm writes zeros where the server counted nothing
    return answer


def _timeout() -> Any:
    """One timeout for all calls, because litellm makes a new client with its own connections for each new value.

    The hub itself limits the duration of a call; many of litellm's transports apply the timeout to each read only.
    """
    import httpx  # which litellm brings

    return httpx.Timeout(_LONGEST_SECONDS, connect=CONNECT_SECONDS)


@asynccontextmanager
async def open_litellm(
    config: ModelConfig,
    identity: ProviderModel,
    *,
    base_url: str | None = None,
    endpoint: Endpoint | None = None,
    backoff: Backoff | None = None,
    redact: Callable[[str], str] = str,
) -> AsyncGenerator[LitellmModel]:
    """Open a model through litellm; its connections are closed with the context.

    `base_url` is None for the provider's own address; `endpoint` describes a server with the OpenAI API.

    Raises:
        ConfigError: litellm is not installed.
    """
    litellm = await load_litellm(f"model {config.name!r}")
    bound_clients()
    async with keep_clients(litellm):
        yield LitellmModel(litellm, config, identity, base_url, endpoint, backoff or Backoff(), redact)
