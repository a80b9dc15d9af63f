"""veRL's engine as a `TokenEngine`: its server client takes and returns token ids."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

from rollouthub.errors import ContextLimitError, ModelError
from rollouthub.generation import Sampling
from rollouthub.models.tokens import Sampled
from rollouthub.trainers.verl.verl_pictures import VerlPictures

_SESSIONS = 4096


class ServerClient(Protocol):
    """The method that the hub calls on `verl.workers.rollout.llm_server.LLMServerClient`."""

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **shown: Any
    ) -> Any:
        """Generate after a prompt; returns a `TokenOutput`: token_ids, log_probs, stop_reason, extra_fields."""
        ...


class VerlEngine:
    """Samples with veRL's client, in the event loop that the client belongs to."""

    def __init__(
        self,
        client: Any,
        loop: asyncio.AbstractEventLoop,
        *,
        prompt_length: int | None,
        response_length: int | None,
        pictures: VerlPictures | None = None,
    ) -> None:
        """The lengths are veRL's `rollout.prompt_length` and `rollout.response_length`, in tokens: no row exceeds them.

        `pictures` prepares pictures for a vision-language policy.
        """
        self.client = cast(ServerClient, client)
        """veRL's client, which samples."""
        self.loop = loop
        """The event loop that the client belongs to."""
        self._prompt_length, self._response_length = prompt_length, response_length
        self._pictures = pictures
        self._begun: OrderedDict[str, int] = OrderedDict()
        """The length of the first prompt in tokens, of the latest sessions."""
        self._newest: dict[str, int] = {}

    def newest(self, session: str) -> int | None:
        """The highest policy version that answered in a session; None if veRL reports no versions. Reading clears
        it.
        """
        return self._newest.pop(session, None)

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        Raises:
            ContextLimitError: the prompt leaves no room within veRL's lengths.
            ModelError: the prompt has pictures, and the policy is text-only.
        """
        most = self._room(prompt_ids, sampling, session)
        asked = _parameters(sampling, most)
        answer = await self._on_its_loop(list(prompt_ids), asked, session, await self._shown(media))
        ids = list(answer.token_ids)
        fields: dict[str, Any] = answer.extra_fields or {}
        oldest, newest = (fields.get(name, fields.get("global_steps")) for name in _STEPS)
        if newest is not None:
            self._newest[session] = max(int(newest), self._newest.get(session, int(newest)))
        return Sampled(
            ids,
            None if answer.log_probs is None else list(answer.log_probs),
            _reason(answer.stop_reason, len(ids), most),
            None if oldest is None else int(oldest),
        )

    async def _shown(self, media: Mapping[str, bytes]) -> dict[str, Any]:
        """The arguments of veRL's client for the prompt's pictures."""
        if not media:
            return {}
        if self._pictures is None:
            raise ModelError(
                "the conversation has pictures or sounds, and veRL's policy is played as one of words: its model has "
                "no processor, or the caller takes none",
                retryable=False,
            )
        shown: dict[str, Any] = {"image_data": await self._pictures.opened(media.values())}
        if self._pictures.settings:
            shown["mm_processor_kwargs"] = self._pictures.settings
        return shown

    async def _on_its_loop(
        self, prompt_ids: list[int], asked: dict[str, Any], session: str, shown: dict[str, Any]
    ) -> Any:
        async def generate() -> Any:
            return await self.client.generate(session, prompt_ids=prompt_ids, sampling_params=asked, **shown)

        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(generate(), self.loop))

    def _room(self, prompt_ids: Sequence[int], sampling: Sampling, session: str) -> int | None:
        """How many tokens may be sampled: all tokens after the first prompt, tool results too, count as the
        response.
        """
        begun = min(self._begun.get(session, len(prompt_ids)), len(prompt_ids))
        self._begun[session] = begun
        self._begun.move_to_end(session)
        while len(self._begun) > _SESSIONS:
            self._begun.popitem(last=False)
        if self._prompt_length is not None and begun > self._prompt_length:
            raise ContextLimitError(f"the prompt has {begun} tokens, and veRL's prompt_length is {self._prompt_length}")
        if self._response_length is None:
            return sampling.max_tokens
        room = self._response_length - (len(prompt_ids) - begun)
        if room <= 0:
            raise ContextLimitError(f"the response has the {self._response_length} tokens of veRL's response_length")
        return room if sampling.max_tokens is None else min(room, sampling.max_tokens)


_STEPS = ("min_global_steps", "max_global_steps")


def _parameters(sampling: Sampling, most: int | None) -> dict[str, Any]:
    named = {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": most}
    asked: dict[str, Any] = {**{key: value for key, value in named.items() if value is not None}, **sampling.extra}
    if sampling.stop is not None:
        asked["stop"] = list(sampling.stop)
    return asked


def _reason(stop_reason: str | None, count: int, most: int | None) -> str:
    """The finish reason; veRL reports "completed" also for an answer that was truncated."""
    if stop_reason == "aborted":
        return "abort"
    return "length" if stop_reason == "length" or (most is not None and count >= most) else "stop"


def sampling_of(parameters: Mapping[str, Any]) -> Sampling:
    """veRL's sampling parameters as the hub's `Sampling`; parameters without a field there go into `extra`
    unchanged.
    """
    ours = {key: parameters[key] for key in ("temperature", "top_p", "max_tokens") if parameters.get(key) is not None}
    rest = {key: value for key, value in parameters.items() if key not in ("temperature", "top_p", "max_tokens")}
    return Sampling(**ours, extra=rest)
