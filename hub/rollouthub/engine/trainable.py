"""Whether a rollout can train a model, and what it lacks for that."""

from rollouthub.rollout import BROKEN_OFF, SUSPECT, Outcome, Turn


def why_not_trainable(
    outcome: Outcome,
    turns: tuple[Turn, ...],
    is_privileged: bool,
    *,
    is_told: bool = False,
    suspect: str | None = None,
) -> str | None:
    """Why a rollout must not be learnt from; None when it may."""
    if outcome is not Outcome.SCORED:
        return f"not scored: {outcome.value}"
    if is_privileged:
        return "played the reference solution"
    if is_told:
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
    """What the model's engine did not give of some turn."""
    gaps: list[str] = []
    asked = [turn for turn in turns if turn.finish_reason not in (None, BROKEN_OFF)]
    if any(turn.output_token_ids is None for turn in asked):
        gaps.append("token_ids")
    if any(turn.output_logprobs is None for turn in asked):
        gaps.append("logprobs")
    return tuple(gaps)
