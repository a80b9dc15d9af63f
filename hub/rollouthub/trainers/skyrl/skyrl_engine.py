"""SkyRL's inference engine client as a `TokenEngine`."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from rollouthub.errors import ModelError
from rollouthub.generation import Sampling
from rollouthub.messages import data_url
from rollouthub.models.tokens import Sampled
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures

logger = logging.getLogger(__name__)

_OURS = ("temperature", "top_p", "max_tokens", "stop", "seed")


def sampling_of(params: Mapping[str, Any] | None) -> Sampling:
    """SkyRL's sampling parameters as the hub's `Sampling`; parameters without a field there go into `extra`
    unchanged.
    """
    given = dict(params or {})
    known = {name: given.pop(name) for name in _OURS if name in given}
    stop = known.pop("stop", None)
    if stop:
        known["stop"] = (stop,) if isinstance(stop, str) else tuple(stop)
    return Sampling(**known, extra=given)


class SkyrlEngine:
    """A `TokenEngine` over SkyRL's `InferenceEngineInterface`, which takes and returns token ids."""

    def __init__(self, client: Any, model: str | None = None, pictures: PromptPictures | None = None) -> None:
        """`model` is the adapter or model to use if the client has several; `pictures` prepares images for a
        vision-language policy.
        """
        self._client, self._model, self._pictures = client, model, pictures

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            ModelError: the conversation shows pictures, and no processor was given; or SkyRL's server counts their
            tokens differently.
        """
        params: dict[str, Any] = dict(sampling.extra)
        params |= sampling.model_dump(include=set(_OURS), exclude_none=True)
        if "stop" in params:
            params["stop"] = list(params["stop"])
        if params.get("logprobs") is None:
            params["logprobs"] = 1
        asked: dict[str, Any] = {
            "prompt_token_ids": [list(prompt_ids)],
            "session_ids": [session],
            "sampling_params": params,
        }
        if (salt := self._cache_salt()) is not None:
            asked["cache_salt"] = salt
        if media:
            asked["mm_features"] = [await self._features(prompt_ids, list(media.values()))]
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

    def _cache_salt(self) -> str | None:
        """What keeps vLLM's prefix cache to one version of the weights: else new answers begin with what old weights
        computed, in trainers that do not clear it. SkyRL's own generator salts likewise, once for each batch.
        """
        version = getattr(self._client, "weight_version", None)
        named = "" if self._model is None else f"{self._model}@"
        return None if version is None else f"{named}{version}"

    async def _features(self, prompt_ids: Sequence[int], raws: Sequence[bytes]) -> dict[str, Any]:
        """Picture features for SkyRL's servers, rendered by a server, with their positions in this prompt."""
        if self._pictures is None:
            raise ModelError(
                "the conversation shows pictures; give HubGenerator the policy's processor", retryable=False
            )
        shown = [{"type": "image_url", "image_url": {"url": data_url(raw)}} for raw in raws]
        named = self._model or self._client.model_name
        body = {"model": named, "messages": [{"role": "user", "content": shown}]}
        rendered: dict[str, Any] = await self._client.render_chat_completion({"json": body})
        places = [{"offset": begin, "length": length} for begin, length in self._pictures.runs(prompt_ids)]
        own = [place["length"] for place in places]
        theirs = [place["length"] for place in rendered["features"]["mm_placeholders"]["image"]]
        if theirs != own:
            raise ModelError(
                f"SkyRL's server gives the pictures {theirs} tokens, and the processor {own}; "
                "give HubGenerator the processor of the very model that is served",
                retryable=False,
            )
        return {**rendered["features"], "mm_placeholders": {"image": places}}

    async def finish(self, session: str) -> None:
        """Tell the client that a session is over, for routers with sticky sessions; only newer clients support this."""
        finish: Any = getattr(self._client, "finish_session", None)
        if finish is None:
            return
        try:
            await finish(session)
        except Exception as error:  # a courtesy must not cost a rollout
            logger.debug("SkyRL's client did not take the end of session %s: %s", session, error)
