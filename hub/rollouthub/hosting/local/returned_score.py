"""Checks that a verifier returned a score; any other value is a verifier error."""

from collections.abc import Mapping
from typing import Any

from rollouthub.authoring.rewards.reward_function import as_score
from rollouthub.errors import VerifierError
from rollouthub.score import Score, VerifierRef


def score_from(value: object, hook: str) -> Score:
    """Convert a hook's return value to a score.

    Raises:
        VerifierError: the value is not a score.
    """
    try:
        return as_score(value, f"of {hook}")
    except ValueError as error:
        returned = repr(value) if value is None or isinstance(value, float) else f"a {type(value).__name__}"
        raise VerifierError(f"{hook} returned {returned}: return a Score, a finite number, True or False") from error


def forfeited(why: str, verifier: VerifierRef) -> Score:
    """The score of an agent that destroyed its own sandbox; unscored, it could gain by doing so."""
    return Score(reward=0.0, passed=False, feedback=f"what ran in its sandbox ended it: {why}", verifier=verifier)


def checked_score(score: Score, update: Mapping[str, Any]) -> Score:
    """The score with some fields set, validated again: `model_copy` and `model_construct` let NaN through.

    Raises:
        VerifierError: the score is not valid.
    """
    try:
        return type(score).model_validate({**vars(score), **update})
    except ValueError as error:
        raise VerifierError(f"the verifier returned a score that does not hold: {error}") from error
