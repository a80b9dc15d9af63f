"""slime's engine: SGLang's `/generate` behind its router, token ids in and out."""

from collections.abc import Mapping
from typing import Any, cast

import aiohttp
import msgspec

from rollouthub.errors import ModelError, describe
from rollouthub.models.tokens import Sampled
from rollouthub.protocols import Sampling

ROUTING_HEADER = "X-SMG-Routing-Key"
"""Keeps a session with one server, where the router hashes."""
_MOST_TOLD = 500
_ASK_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class GenerationAborted(ModelError):
    """slime broke generation off: it has all it wanted, or changes the weights."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class SglangEngine:
    """Samples from SGLang servers."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        """`url` is that of `/generate`."""
        self._url, self._session = url, session

    async def sample(self, prompt_ids: Any, sampling: Sampling, *, session: str, media: Mapping[str, bytes]) -> Sampled:
        """Sample after a prompt.

        Raises:
            GenerationAborted: slime broke it off.
            ModelError: the server failed, or its answer is none.
        """
        if media:
            raise ModelError("slime's token route carries no pictures or sounds", retryable=False)
        body = {"input_ids": list(prompt_ids), "sampling_params": params_of(sampling), "return_logprob": True}
        try:
            async with self._session.post(self._url, json=body, headers={ROUTING_HEADER: session}) as response:
                raw = await response.read()
                status = response.status
        except (aiohttp.ClientError, OSError) as error:
            raise ModelError(f"no answer from {self._url}: {describe(error)}") from error
        if status != 200:
            told = raw[:_MOST_TOLD].decode(errors="replace")
            raise ModelError(f"{self._url} answered {status}: {told}", status=status, retryable=status in _ASK_AGAIN)
        try:
            answer = msgspec.json.decode(raw)
        except msgspec.DecodeError as error:
            raise ModelError(f"{self._url} answered no JSON: {error}") from error
        return sampled_of(answer, self._url)


def params_of(sampling: Sampling) -> dict[str, Any]:
    """Sampling parameters as SGLang names them; what slime gave beyond ours stands in `extra`."""
    named = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_new_tokens": sampling.max_tokens,
        "stop": list(sampling.stop) if sampling.stop else None,
        "sampling_seed": sampling.seed,
    }
    return {**sampling.extra, **{name: value for name, value in named.items() if value is not None}}


def sampling_of(params: Mapping[str, Any]) -> Sampling:
    """slime's sampling parameters, in our words."""
    rest = {name: value for name, value in params.items() if value is not None}
    stop = rest.pop("stop", None)
    return Sampling(
        temperature=rest.pop("temperature", None),
        top_p=rest.pop("top_p", None),
        max_tokens=rest.pop("max_new_tokens", None),
        stop=((stop,) if isinstance(stop, str) else tuple(stop)) if stop else None,
        seed=rest.pop("sampling_seed", None),
        extra=rest,
    )


def sampled_of(answer: object, origin: str) -> Sampled:
    """What an answer of `/generate` says was sampled: ids and log-probabilities are pairs there.

    Raises:
        GenerationAborted: it was broken off.
        ModelError: it lacks what `return_logprob` promises.
    """
    try:
        meta = cast(Any, answer)["meta_info"]
        reason = str(meta["finish_reason"]["type"])
        if reason == "abort":
            raise GenerationAborted(f"{origin} broke the answer off")
        pairs = [(float(pair[0]), int(pair[1])) for pair in meta["output_token_logprobs"]]
        version = meta.get("weight_version")
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelError(f"{origin} gave no tokens with log-probabilities: {error!r}", retryable=False) from error
    known = int(version) if version is not None and str(version).isdecimal() else None
    return Sampled([token for _, token in pairs], [logprob for logprob, _ in pairs], reason, known)
