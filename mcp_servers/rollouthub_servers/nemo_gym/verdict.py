"""Converts a verifier's response to a score."""

from math import isclose, isfinite
from typing import Any, cast

from rollouthub.errors import VerifierError
from rollouthub.score import Component, Score

_MOST_METRICS = 64
_ECHOED = frozenset({"reward", "mask_sample", "_ng_task_index", "_ng_rollout_index"})


def score_of(answer: dict[str, Any]) -> Score:
    """The score: the reward unchanged, and other numbers of the response as metrics.

    Raises:
        VerifierError: there is no reward, or the verifier marks it as invalid.
    """
    reward = answer.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, int | float) or not isfinite(reward):
        raise VerifierError(f"the verifier gave the reward {reward!r:.80}, which is no number")
    failure = answer.get("failure_reason") or answer.get("failure_kind")
    if answer.get("mask_sample") is True:
        raise VerifierError(
            f"the verifier says that its reward measures nothing: {failure or 'it gave no reason'!s:.300}"
        )
    components = _components(answer.get("reward_components"), float(reward))
    metrics: dict[str, float] = {}
    for key, value in answer.items():
        if key not in _ECHOED and isinstance(value, int | float) and isfinite(value) and len(metrics) < _MOST_METRICS:
            metrics[key] = float(value)
    feedback = None if failure is None else str(failure)[:500]
    return Score(reward=float(reward), components=components, metrics=metrics, feedback=feedback)


def _components(parts: Any, reward: float) -> dict[str, Component]:
    """The components of a reward, if they add up to it; else empty."""
    if not isinstance(parts, dict):
        return {}
    values = cast(dict[str, Any], parts)
    if not all(isinstance(value, int | float) and isfinite(value) for value in values.values()):
        return {}
    if not isclose(sum(values.values()), reward, rel_tol=1e-6, abs_tol=1e-6):
        return {}
    return {name: Component(value=float(value)) for name, value in values.items()}
