"""slime's engine: SGLang's `/generate` behind its router, with token ids in and out."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from rollouthub.errors import ModelError
from rollouthub.generation import Sampling
from rollouthub.http.exchange import HttpPool
from rollouthub.http.no_answer import NoAnswer
from rollouthub.messages import data_url
from rollouthub.models.tokens import Sampled

ROUTING_HEADER = "X-SMG-Routing-Key"
"""Request header by which a hashing router sends all calls of a session to the same server."""
_ASK_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})


class GenerationAborted(ModelError):
    """slime aborted the generation, because it has enough samples or updates the weights."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class SglangEngine:
    """A `TokenEngine` over SGLang servers."""

    def __init__(self, url: str, pool: HttpPool, *, sees: bool = False) -> None:
        """`url` is the address of `/generate`; `sees` says whether the policy takes pictures."""
        self._url, self._pool, self._sees = url, pool, sees

    async def sample(self, prompt_ids: Any, sampling: Sampling, *, session: str, media: Mapping[str, bytes]) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            GenerationAborted: slime aborted the generation.
            ModelError: the server failed, its answer is invalid, or the conversation shows pictures to a text-only
            policy.
        """
        if media and not self._sees:
            raise ModelError(
                "the conversation shows pictures, and slime's checkpoint has no processor", retryable=False
            )
        body = {"input_ids": list(prompt_ids), "sampling_params": params_of(sampling), "return_logprob": True}
        if media:
            body["image_data"] = [data_url(raw) for raw in media.values()]
        headers = {"Content-Type": "application/json", ROUTING_HEADER: session}
        try:
            answer = await self._pool.exchange("POST", self._url, msgspec.json.encode(body), headers, seconds=None)
            if answer.status == 200:
                return sampled_of(answer.json(), self._url)
        except NoAnswer as error:
            raise ModelError(f"no answer from {self._url}: {error}") from error
        except ValueError as error:
            raise ModelError(f"{self._url} answered no JSON: {error}") from error
        again = answer.status in _ASK_AGAIN
        raise ModelError(f"{self._url} answered {answer.words}", status=answer.status, retryable=again)


def params_of(sampling: Sampling) -> dict[str, Any]:
    """The hub's sampling settings as SGLang's parameters; `extra` holds slime's further parameters."""
    named = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "max_new_tokens": sampling.max_tokens,
        "stop": list(sampling.stop) if sampling.stop else None,
        "sampling_seed": sampling.seed,
    }
    return {**sampling.extra, **{name: value for name, value in named.items() if value is not None}}


def sampling_of(params: Mapping[str, Any]) -> Sampling:
    """slime's sampling parameters as the hub's `Sampling`."""
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
    """The sampled tokens and log-probabilities in an answer of `/generate`.

    Raises:
        GenerationAborted: the generation was aborted.
        ModelError: the answer lacks the tokens that `return_logprob` requests.
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
