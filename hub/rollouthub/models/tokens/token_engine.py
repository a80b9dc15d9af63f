"""`TokenEngine`: samples token ids, such as the handle that a trainer gives to its inference engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

from rollouthub.generation import ModelRequest, Sampling
from rollouthub.messages import Message
from rollouthub.models.tokens.placed_media import PlacedMedia

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sampled:
    """The result of sampling after a prompt."""

    token_ids: Sequence[int]
    """The sampled token ids, including the one that ended the answer."""
    logprobs: Sequence[float] | None
    """A log-probability for each token id; None if the engine reports none."""
    finish_reason: str
    """`stop`, `length`, or `abort` if the engine aborted the answer."""
    versions: Sequence[int] | int | None = None
    """The policy version: one for all tokens, or one per token if weights changed during the answer; None if
    unknown.
    """
    ending: int = 0
    """How many of the last ids end the answer and are not part of its text, if the engine knows; otherwise the chat
    format leaves out special tokens.
    """
    retries: int = 0
    """Failed tries before this answer."""
    message: Message | None = None
    """The message in the token ids, where the engine parsed it itself."""
    prompt_ids: Sequence[int] | None = None
    """The prompt as the model saw it, if the engine put in more ids than it was sent, such as those of pictures."""

    @property
    def is_broken_off(self) -> bool:
        """Whether the answer was aborted, rather than ended by the policy or a limit."""
        return self.finish_reason in ("abort", "aborted", "error")

    def and_then(self, more: "Sampled") -> "Sampled":
        """This answer continued by `more`, as one answer; without values of which a piece has not one for each id, and
        without a message, as `more` has only the last piece's.
        """
        ids = [*self.token_ids, *more.token_ids]
        logprobs = _joined(_logprobs(self), _logprobs(more))
        versions = _joined(_versions(self), _versions(more))
        retries = self.retries + more.retries + 1
        prompt = self.prompt_ids
        if prompt is None and more.prompt_ids is not None:
            prompt = more.prompt_ids[: len(more.prompt_ids) - len(self.token_ids)]
        return replace(
            more,
            token_ids=ids,
            logprobs=logprobs,
            versions=versions,
            retries=retries,
            message=None,
            prompt_ids=prompt,
        )


def _logprobs(sampled: Sampled) -> Sequence[float] | None:
    return _one_each(sampled.logprobs, len(sampled.token_ids))


def _versions(sampled: Sampled) -> Sequence[int] | None:
    """The policy version of each token; None if unknown."""
    count, versions = len(sampled.token_ids), sampled.versions
    return _one_each([versions] * count if isinstance(versions, int) else versions, count)


def _one_each(values: Sequence[_T] | None, count: int) -> Sequence[_T] | None:
    """The values, if there is one for each of `count` ids: two wrong lengths can add up to the right one."""
    if not count:
        return ()
    return values if values is not None and len(values) == count else None


def _joined(one: Sequence[_T] | None, other: Sequence[_T] | None) -> list[_T] | None:
    """Both sequences joined; None if either is None, because half of the values would be at the wrong tokens."""
    return None if one is None or other is None else [*one, *other]


class TokenEngine(Protocol):
    """An inference engine that takes prompt ids and returns sampled token ids."""

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer after a prompt of token ids.

        `session` is the rollout's id, for prefix-cache affinity. `media` are the bytes of pictures and sounds in the
        order in which the prompt shows them, by digest; a repeated one has `#2` after its digest. An exception fails
        the call: a `ModelError` states itself whether it is retryable, any other exception is treated as retryable.
        """
        ...


@runtime_checkable
class PlacingTokenEngine(TokenEngine, Protocol):
    """An engine that takes media as a `PlacingChatFormat` rendered them."""

    async def sample_placed(
        self,
        prompt_ids: Sequence[int],
        sampling: Sampling,
        *,
        session: str,
        placed: Sequence[PlacedMedia],
        adapter: str = "",
    ) -> Sampled:
        """Sample an answer after a prompt with media; `placed` are in the prompt's order, `adapter` is the request's.
        Otherwise as `sample`.
        """
        ...


@runtime_checkable
class AnsweringTokenEngine(TokenEngine, Protocol):
    """An engine that parses what it samples, for which it takes the request beside the prompt."""

    async def answer(
        self, prompt_ids: Sequence[int], sampling: Sampling, request: ModelRequest, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample an answer to a request after its prompt; `media` as in `sample`, which this is otherwise like."""
        ...
