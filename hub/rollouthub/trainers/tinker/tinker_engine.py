"""`TinkerEngine`: Tinker's `SamplingClient` as a token engine.

Read in tinker 0.38.0: `lib/public_interfaces/sampling_client.py`, `types/_pydantic_types/sampling_params.py`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from rollouthub.errors import ModelError
from rollouthub.generation import Sampling
from rollouthub.models.tokens import Sampled
from rollouthub.trainers.systems import system_module

_REFUSED = frozenset({400, 401, 402, 403, 404, 422})
_OURS = ("temperature", "top_p", "max_tokens", "seed")


class TinkerEngine:
    """A `TokenEngine` over a `SamplingClient`; for a `TokenModel`.

    A client has the weights of one moment. Set `client` to the next one where new weights are published: calls that
    are under way end with the old one.
    """

    def __init__(self, client: Any) -> None:
        """`client` is what `save_weights_and_get_sampling_client()` or `create_sampling_client()` gave."""
        self.client = client

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            ModelError: Tinker refused the request; or the conversation shows pictures, or `extra` has settings that
            Tinker does not know.
        """
        if media:
            raise ModelError("Tinker is handed token ids alone, no pictures or sounds", retryable=False)
        tinker = system_module("tinker")
        prompt = tinker.ModelInput.from_ints(list(prompt_ids))
        try:
            answered = await self.client.sample(prompt, 1, _params(tinker, sampling))
        except tinker.APIStatusError as error:
            again = error.status_code not in _REFUSED
            raise ModelError(f"Tinker answered {error}", status=error.status_code, retryable=again) from error
        except tinker.RequestFailedError as error:
            again = error.category != "user"
            raise ModelError(f"Tinker: {error}", retryable=again) from error
        sequence = answered.sequences[0]
        return Sampled(sequence.tokens, sequence.logprobs, sequence.stop_reason)


def _params(tinker: Any, sampling: Sampling) -> Any:
    """The hub's sampling settings as Tinker's; `extra` may have its other fields, such as `top_k`."""
    known = tinker.SamplingParams.model_fields
    if unknown := sorted(set(sampling.extra) - set(known)):
        raise ModelError(
            f"Tinker has no sampling settings {', '.join(unknown)}; it has {', '.join(known)}", retryable=False
        )
    named = sampling.model_dump(include=set(_OURS), exclude_none=True)
    if sampling.stop is not None:
        named["stop"] = list(sampling.stop)
    return tinker.SamplingParams(**{**sampling.extra, **named})
