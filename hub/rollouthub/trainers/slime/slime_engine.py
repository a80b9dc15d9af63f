"""slime's engine: SGLang behind its router, whose aborted answers end a rollout."""

from collections.abc import Mapping, Sequence
from typing import Any

from rollouthub.errors import ModelError
from rollouthub.generation import Sampling
from rollouthub.models.tokens import Sampled
from rollouthub.models.tokens.sglang_engine import SglangEngine


class GenerationAborted(ModelError):
    """slime aborted the generation, because it has enough samples or updates the weights."""

    def __init__(self, message: str) -> None:
        super().__init__(message, retryable=False)


class SlimeEngine(SglangEngine):
    """A `TokenEngine` over slime's SGLang servers."""

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            GenerationAborted: slime aborted the generation.
            ModelError: as `SglangEngine`.
        """
        sampled = await super().sample(prompt_ids, sampling, session=session, media=media)
        if sampled.is_broken_off:
            raise GenerationAborted("slime broke the answer off")
        return sampled


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
