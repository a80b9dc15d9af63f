"""Whether a rollout can be used for training, and what it lacks for that."""

from collections.abc import Sequence

from rollouthub.rollout import BROKEN_OFF, SUSPECT, Outcome, Turn

PRIVILEGED = "played the reference solution"
"""Why a rollout that played the reference solution is not trainable."""

FAILED_AT = "the agent failed at seat "
"""Beginning of the reason why a rollout is not trainable in which the agent of one seat failed."""


def why_not_trainable(
    outcome: Outcome,
    turns: tuple[Turn, ...],
    is_privileged: bool,
    *,
    had_interventions: bool = False,
    suspect: str | None = None,
    failed: Sequence[str] = (),
) -> str | None:
    """Why a rollout must not be used for training; None if it may. `failed` are the policy's seats whose agents
    failed.
    """
    if outcome is not Outcome.SCORED:
        return f"not scored: {outcome.value}"
    if is_privileged:
        return PRIVILEGED
    if failed:
        return f"{FAILED_AT}{failed[0]}"
    if had_interventions:
        return "a person helped: it was told something while it played"
    whole = [turn for turn in turns if turn.finish_reason != BROKEN_OFF]  # the others make no training rows
    if not whole:
        return "no turns"
    if suspect is not None:
        return f"{SUSPECT}{suspect}"
    for turn in whole:
        if turn.output_token_ids is None or turn.prompt_token_ids is None:
            return f"turn {turn.index} has no token ids from the engine"
        if turn.output_logprobs is None or len(turn.output_logprobs) != len(turn.output_token_ids):
            return f"turn {turn.index} has no logprobs for every sampled token"
    return None


def missing_arrays(turns: tuple[Turn, ...]) -> tuple[str, ...]:
    """Names of the token arrays that the inference engine did not return for some turn."""
    gaps: list[str] = []
    asked = [turn for turn in turns if turn.finish_reason not in (None, BROKEN_OFF)]
    if any(turn.output_token_ids is None for turn in asked):
        gaps.append("token_ids")
    if any(turn.output_logprobs is None for turn in asked):
        gaps.append("logprobs")
    return tuple(gaps)
