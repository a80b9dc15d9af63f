"""`VllmTokenEngine`: a vLLM server as a token engine."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from rollouthub.errors import ModelError
from rollouthub.event_loop import is_crowded
from rollouthub.generation import Sampling
from rollouthub.models.dialects import adapter_fields
from rollouthub.models.direct.answer_bounds import BadAnswer, check_crowding
from rollouthub.models.direct.chat_wire import write_sampling
from rollouthub.models.direct.completion import MOST_REASON
from rollouthub.models.tokens.placed_media import PlacedMedia
from rollouthub.models.tokens.token_engine import Sampled
from rollouthub.models.tokens.token_server import PROBE
from rollouthub.models.tokens.vllm_features import written_features
from rollouthub.models.tokens.vllm_server import GENERATE, RENDER, VllmServer
from rollouthub.models.weight_spans import WeightSpan, span_versions

TAKEN = frozenset(
    {
        *("model", "messages", "tools", "stream", "stream_options", "n", "logprobs", "top_logprobs", "prompt_logprobs"),
        *("return_token_ids", "echo", "tool_choice", "add_generation_prompt", "continue_final_message"),
    }
)
"""Request fields that a caller must not set in this lane. `tool_choice` is among them, because only the chat route
turns it into a grammar.
"""
_REMEMBERED = 256


class _Logprob(Struct, gc=False):
    logprob: float


class _Logprobs(Struct, gc=False):
    content: list[_Logprob] | None = None


class _Choice(Struct, gc=False):
    token_ids: list[int] | None = None
    finish_reason: str | None = None
    stop_reason: int | str | None = None
    logprobs: _Logprobs | None = None
    weight_versions: list[WeightSpan] | None = None


class _Generated(Struct, gc=False):
    choices: tuple[_Choice]


class _RenderedSampling(Struct, gc=False):
    sampling_params: Raw


_generated = msgspec.json.Decoder(_Generated)
_rendered = msgspec.json.Decoder(_RenderedSampling)
_parameters = msgspec.json.Decoder(dict[str, Any])


class VllmTokenEngine:
    """Samples with the server's own defaults for the model, as its chat route does."""

    def __init__(self, server: VllmServer) -> None:
        self._server = server
        self._parameters: dict[bytes, dict[str, Any]] = {}

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            ContextLimitError: the prompt is too long.
            ModelError: the server failed, or refused.
        """
        if media:
            raise ModelError(
                f"{self._server.name}: the conversation shows pictures or sounds that were not rendered before",
                retryable=False,
            )
        return await self.sample_placed(prompt_ids, sampling, session=session, placed=())

    async def sample_placed(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        session: str,
        placed: Sequence[PlacedMedia],
        adapter: str = "",
    ) -> Sampled:
        """Sample an answer after a prompt of token ids, in which media are at these places.

        Raises:
            ContextLimitError: the prompt is too long.
            ModelError: the server failed, or refused.
        """
        parameters = {**await self._converted(sampling), "logprobs": 0}
        # Left out, the server takes what is left of the context.
        if sampling.max_tokens is not None:
            parameters["max_tokens"] = sampling.max_tokens
        if sampling.seed is not None:
            parameters["seed"] = sampling.seed
        body: dict[str, Any] = {"token_ids": prompt_ids, "sampling_params": parameters}
        if adapter:
            body |= adapter_fields(adapter, "vllm", self._server.owner)
        if placed:
            body["features"] = written_features(placed, self._server.name)
        answer, failures = await self._server.call(GENERATE, body, session=session)
        try:
            check_crowding(answer)
            (choice,) = _generated.decode(answer).choices
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadAnswer) as error:
            raise self._server.bad_answer(GENERATE, error) from None
        ids = choice.token_ids or []
        content = choice.logprobs.content if choice.logprobs is not None else None
        return Sampled(
            token_ids=ids,
            logprobs=None if content is None else [entry.logprob for entry in content],
            finish_reason=(choice.finish_reason or "stop")[:MOST_REASON],
            versions=span_versions(choice.weight_versions or (), len(ids)),
            # The chat route's words leave the token out that ended them; a string that did is cut off as text.
            ending=int(choice.finish_reason == "stop" and not isinstance(choice.stop_reason, str)),
            retries=failures,
        )

    async def _converted(self, sampling: Sampling) -> dict[str, Any]:
        """The engine's parameters for these sampling settings, converted by the server with the model's defaults.

        Seed and `max_tokens`, which differ between rollouts, are left out, so that the server is asked once for the
        rest.
        """
        asked = sampling.model_copy(update={"max_tokens": None, "seed": None})
        fields: dict[str, Any] = {}
        write_sampling(fields, asked, TAKEN)
        key = msgspec.json.encode(fields, order="deterministic")
        known = self._parameters.get(key)
        if known is None:
            answer, _ = await self._server.call(RENDER, {"messages": PROBE, **fields})
            try:
                raw = bytes(_rendered.decode(answer).sampling_params)
                if is_crowded(raw):
                    raise BadAnswer("its sampling parameters hold more values than the hub reads")
                known = _parameters.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, BadAnswer) as error:
                raise self._server.bad_answer(RENDER, error) from None
            known.pop("max_tokens", None)
            if len(self._parameters) >= _REMEMBERED:
                self._parameters.clear()
            self._parameters[key] = known
        return known
