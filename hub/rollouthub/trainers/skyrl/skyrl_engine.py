"""SkyRL's inference engine client as an engine of tokens."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from rollouthub.errors import ModelError
from rollouthub.models.tokens import Sampled
from rollouthub.protocols import Sampling

logger = logging.getLogger(__name__)

_OURS = ("temperature", "top_p", "max_tokens", "stop", "seed")


def sampling_of(params: Mapping[str, Any] | None) -> Sampling:
    """SkyRL's sampling parameters, in its engine's words, as ours; what we have no word for goes along as it is."""
    given = dict(params or {})
    known = {name: given.pop(name) for name in _OURS if name in given}
    stop = known.pop("stop", None)
    if stop:
        known["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return Sampling(**known, extra=given)


class SkyrlEngine:
    """A `TokenEngine` over an `InferenceEngineInterface`: ids in, ids out."""

    def __init__(self, client: Any, model: str | None = None) -> None:
        """`model` is the adapter or model that is asked, where the client serves several."""
        self._client, self._model = client, model

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample after a prompt.

        Raises:
            ModelError: the conversation shows pictures, which are not passed on.
        """
        if media:
            raise ModelError("pictures are not passed to SkyRL's engine; play tasks of text", retryable=False)
        params: dict[str, Any] = dict(sampling.extra)
        params |= sampling.model_dump(include=set(_OURS), exclude_none=True)
        if "stop" in params:
            params["stop"] = list(params["stop"])
        if params.get("logprobs") is None:
            params["logprobs"] = 1
        asked = {"prompt_token_ids": [list(prompt_ids)], "session_ids": [session], "sampling_params": params}
        answered = await (
            self._client.generate(asked) if self._model is None else self._client.generate(asked, model=self._model)
        )
        logprobs, version = answered.get("response_logprobs"), getattr(self._client, "weight_version", None)
        return Sampled(
            token_ids=answered["response_ids"][0],
            logprobs=None if logprobs is None else logprobs[0],
            finish_reason=answered["stop_reasons"][0],
            versions=version if isinstance(version, int) else None,
        )

    async def finish(self, session: str) -> None:
        """Tell a router that sticks to sessions that this one is over; newer clients have a word for it."""
        finish: Any = getattr(self._client, "finish_session", None)
        if finish is None:
            return
        try:
            await finish(session)
        except Exception as error:  # a seam: a courtesy must not cost a rollout
            logger.debug("SkyRL's client did not take the end of session %s: %s", session, error)
