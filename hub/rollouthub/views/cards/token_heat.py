"""How probable the model found each token it sampled: steps of heat, forks, and the text that a token holds."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from rollouthub.rollout import Turn

STEPS = (0.99, 0.9, 0.75, 0.5, 0.25, 0.1, 0.01)
"""Lower bounds of probability of the steps, from the most probable tokens on; the last step is everything below."""
_DESCENDING = tuple(-bound for bound in STEPS)
FORK = 0.1
"""A token that the model gave less probability is a fork: it could well have gone on differently."""


def probability_of(logprob: float | None) -> float | None:
    """The probability of a token; None if it is unknown."""
    return None if logprob is None or math.isnan(logprob) else math.exp(min(0.0, logprob))


def heat_step(logprob: float | None) -> int | None:
    """The step of a token, 0 for the most probable; None if its probability is unknown."""
    probability = probability_of(logprob)
    return None if probability is None else step_of(probability)


def step_of(probability: float) -> int:
    """The step of a probability, 0 for the highest."""
    return bisect_left(_DESCENDING, -probability)


@dataclass(frozen=True)
class SampledTokens:
    """The sampled tokens of a turn; an array that does not fit the ids counts as missing."""

    turn: Turn
    ids: Sequence[int]
    logprobs: Sequence[float] | None
    mask: Sequence[int] | None
    versions: Sequence[int] | None
    ends: Sequence[int] | None
    """For each token, how many characters of the response's text it and the tokens before it hold."""

    @classmethod
    def of(cls, turn: Turn) -> "SampledTokens | None":
        """The tokens of a turn; None if the backend gave no ids."""
        ids = turn.output_token_ids
        if ids is None:
            return None
        kept = (turn.output_logprobs, turn.output_mask, turn.policy_versions, turn.output_text_ends)
        logprobs, mask, versions, ends = (
            tuple(array) if array is not None and len(array) == len(ids) else None for array in kept
        )
        return cls(turn, tuple(ids), logprobs, mask, versions, ends)  # pyright: ignore[reportArgumentType]

    def is_learnt(self, place: int) -> bool:
        """Whether the loss mask lets training use a token."""
        return self.mask is None or bool(self.mask[place])

    def logprob(self, place: int) -> float | None:
        """The log-probability of a token; None if it is unknown."""
        return None if self.logprobs is None else self.logprobs[place]

    def version(self, place: int) -> int | None:
        """The policy version that sampled a token; None if it is unknown."""
        return self.turn.policy_version if self.versions is None else self.versions[place]

    @cached_property
    def mean_logprob(self) -> float | None:
        """The mean of the known log-probabilities; None if there are none."""
        known = [value for value in self.logprobs or () if not math.isnan(value)]
        return sum(known) / len(known) if known else None

    @cached_property
    def forks(self) -> Sequence[int]:
        """The places of tokens with a probability below `FORK`."""
        least = math.log(FORK)
        return [place for place, value in enumerate(self.logprobs or ()) if value < least]

    @cached_property
    def texts(self) -> Sequence[str] | None:
        """The text of each token, empty for those that hold none of the response's text, such as the end of the answer
        or a tool call; None where it is not known which token holds what.
        """
        said = self.turn.response.text
        ends = self.ends
        if ends is None or list(ends) != sorted(ends) or (ends and not 0 <= ends[0] <= ends[-1] <= len(said)):
            return None
        return [said[start:end] for start, end in pairwise((0, *ends))]
