"""Which limit a seat has reached, and how long its next answer may be."""

from rollouthub.engine.recorder import Recorder
from rollouthub.generation import Sampling
from rollouthub.limits import Limits
from rollouthub.rollout import Stop


def reached_limit(limits: Limits, turns: int, recorder: Recorder) -> Stop | None:
    """The limit that a seat has reached after this many turns; None if it may take another."""
    if limits.max_turns is not None and turns >= limits.max_turns:
        return Stop.TURN_LIMIT
    if limits.max_cost is not None and recorder.cost >= limits.max_cost:
        return Stop.COST_LIMIT
    if limits.max_tokens is not None and recorder.output_tokens >= limits.max_tokens:
        return Stop.TOKEN_LIMIT
    return None


def capped(sampling: Sampling, most_tokens: int | None) -> Sampling:
    """The sampling with answers of at most `most_tokens`; the same object if it allows no more already."""
    if most_tokens is None or (sampling.max_tokens is not None and sampling.max_tokens <= most_tokens):
        return sampling
    return sampling.model_copy(update={"max_tokens": most_tokens})
