"""`TokenEngine`: samples token ids, such as the handle that a trainer gives to its inference engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

from rollouthub.generation import Sampling
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

    @property
    def is_broken_off(self) -> bool:
        """Whether the answer was aborted, rather than ended by the policy or a limit."""
        return self.finish_reason in ("abort", "aborted", "error")

    def and_then(self, more: "Sampled") -> "Sampled":
        """This answer continued by `more`, as one answer; without values of which a piece has not one for each id."""
        ids = [*self.token_ids, *more.token_ids]
        logprobs = _joined(_logprobs(self), _logprobs(more))
        versions = _joined(_versions(self), _versions(more))
        retries = self.retries + more.retries + 1
        return replace(more, token_ids=ids, logprobs=logprobs, versions=versions, retries=retries)


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
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, placed: Sequence[PlacedMedia]
    ) -> Sampled:
        """Sample an answer after a prompt with media; `placed` are in the prompt's order. Otherwise as `sample`."""
        ...
