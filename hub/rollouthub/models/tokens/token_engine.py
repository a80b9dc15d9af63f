"""`TokenEngine`: a sampler of tokens, such as the handle a trainer gives to its inference engine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from rollouthub.protocols import Sampling

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Sampled:
    """What an engine sampled after a prompt."""

    token_ids: Sequence[int]
    """Those it sampled, the one that ended the answer included."""
    logprobs: Sequence[float] | None
    """One for each of them; None where the engine gives none."""
    finish_reason: str
    """`stop`, `length`, or `abort` where it was broken off."""
    versions: Sequence[int] | int | None = None
    """Of the policy: one for all, or one per token where weights changed in mid-answer; None where nobody knows."""
    ending: int = 0
    """How many of the last ids end the answer and are none of its words, where the engine knows it better than the chat
    format, which leaves out special tokens."""
    retries: int = 0
    """Failed tries before this answer."""

    @property
    def is_broken_off(self) -> bool:
        """Whether something else than the policy or a limit ended it."""
        return self.finish_reason in ("abort", "aborted", "error")

    def and_then(self, more: "Sampled") -> "Sampled":
        """This, and what was sampled after it, as one answer."""
        ids = [*self.token_ids, *more.token_ids]
        logprobs = _joined(_logprobs(self), _logprobs(more))
        versions = _joined(_versions(self), _versions(more))
        retries = self.retries + more.retries + 1
        return replace(more, token_ids=ids, logprobs=logprobs, versions=versions, retries=retries)


def _logprobs(sampled: Sampled) -> Sequence[float] | None:
    return sampled.logprobs if len(sampled.token_ids) else ()


def _versions(sampled: Sampled) -> Sequence[int] | None:
    """The version of each token."""
    count, versions = len(sampled.token_ids), sampled.versions
    if not count:
        return ()
    return [versions] * count if isinstance(versions, int) else versions


def _joined(one: Sequence[_T] | None, other: Sequence[_T] | None) -> list[_T] | None:
    """Both, where both are known: half of them would stand at the wrong tokens."""
    return None if one is None or other is None else [*one, *other]


class TokenEngine(Protocol):
    """Who samples."""

    async def sample(
        self, prompt_ids: Sequence[int], sampling: Sampling, *, session: str, media: Mapping[str, bytes]
    ) -> Sampled:
        """Sample after a prompt.

        `session` is the rollout it belongs to, for prefix-cache affinity. `media` are the bytes of the pictures and
        sounds in the order in which the prompt shows them, by digest; one shown again has `#2` behind its digest.
        What is raised fails the call: a `ModelError` as it says itself, anything else as worth another attempt.
        """
        ...
