"""Reads the states of attempts in flight from a run's database."""

from collections.abc import Sequence
from math import isfinite
from typing import Any, get_args

from rollouthub.live.follow.attempt_columns import MOST
from rollouthub.store.run_facts import LiveState, State

_STATES = get_args(State)


def live_state(row: Sequence[Any]) -> LiveState:
    """Parse a row of a live state; the database may come from another program, so the row is checked.

    Raises:
        TypeError, ValueError: the row is not a valid live state.
    """
    rollout_id, environment, task_id, sample, attempt, state, turn, output_tokens, updated_at = row
    is_named = isinstance(rollout_id, str) and isinstance(environment, str) and isinstance(task_id, str)
    if not is_named or state not in _STATES:
        raise ValueError(f"{state!r} is no state of an attempt in flight")
    if not isfinite(updated_at):
        raise ValueError("an attempt in flight moved at no time")
    counts = (sample, attempt, turn, output_tokens)
    if not (all(type(count) is int for count in counts) and min(counts) >= -MOST and max(counts) <= MOST):
        sample, attempt, turn, output_tokens = (max(-MOST, min(MOST, int(count))) for count in counts)
    return LiveState(rollout_id, environment, task_id, sample, attempt, state, turn, output_tokens, updated_at)
