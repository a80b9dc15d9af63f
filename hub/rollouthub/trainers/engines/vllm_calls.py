"""Converts between vLLM's objects and the hub's, for trainers that hand out a vLLM engine."""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rollouthub.generation import Sampling
from rollouthub.models.tokens import Sampled

_EXTRA = ("top_k", "min_p", "min_tokens", "stop_token_ids", "repetition_penalty", "presence_penalty")
"""Fields of `SamplingParams` that the hub's `Sampling` has no field for; they go into its `extra`."""


class SamplingParams(Protocol):
    """The fields that the hub reads of vLLM's class of this name."""

    temperature: float
    top_p: float
    max_tokens: int | None
    logprobs: int | None


class VllmLogprob(Protocol):
    """One token's log-probability."""

    logprob: float


class CompletionOutput(Protocol):
    """One answer of vLLM: token ids, log-probabilities and finish reason."""

    token_ids: Sequence[int]
    logprobs: Sequence[Mapping[int, VllmLogprob]] | None
    finish_reason: str | None


class RequestOutput(Protocol):
    """vLLM's result for one prompt."""

    outputs: Sequence[CompletionOutput]


def sampling_of(params: SamplingParams) -> Sampling:
    """A trainer's vLLM sampling parameters as the hub's `Sampling`."""
    extra = {name: getattr(params, name, None) for name in _EXTRA}
    stop = getattr(params, "stop", None)
    return Sampling(
        temperature=params.temperature,
        top_p=params.top_p,
        max_tokens=params.max_tokens,
        stop=tuple(stop) if stop else None,
        extra={name: value for name, value in extra.items() if value},
    )


def params_of(template: SamplingParams, sampling: Sampling) -> Any:
    """The trainer's parameters with this call's changes; log-probabilities are always requested."""
    params: Any = copy.deepcopy(template)
    params.logprobs = template.logprobs or 1
    for name in ("temperature", "top_p", "max_tokens", "seed"):
        if (value := getattr(sampling, name)) is not None:
            setattr(params, name, value)
    if sampling.stop is not None:
        params.stop = list(sampling.stop)
    for name, value in sampling.extra.items():
        if hasattr(params, name):
            setattr(params, name, value)
    return params


def sampled_of(output: RequestOutput | None) -> Sampled:
    """vLLM's result as the hub's `Sampled`. If the log-probability of any token is missing, all are left out: a gap
    must not be read as probability 1.
    """
    if output is None or not output.outputs:
        return Sampled((), None, "abort")
    answer = output.outputs[0]
    ids = list(answer.token_ids)
    logprobs: list[float] | None = None
    if answer.logprobs is not None and len(answer.logprobs) == len(ids):
        found = [logprobs.get(token) for token, logprobs in zip(ids, answer.logprobs, strict=True)]
        known = [each.logprob for each in found if each is not None]
        logprobs = known if len(known) == len(ids) else None
    return Sampled(ids, logprobs, answer.finish_reason or "abort")
