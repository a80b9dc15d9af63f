"""The attempts in flight, in a stable order."""

from array import array
from collections.abc import Callable, Sequence
from math import nan
from typing import Any, cast

from rollouthub.live.follow.attempt_columns import KINDS, AttemptColumns
from rollouthub.live.follow.fuzzy import closeness
from rollouthub.store import LiveState
from rollouthub.store.sql_schema import SUMMARY_COLUMNS
from rollouthub_tui.widgets.rollouts.rollout_query import RolloutQuery

Flight = tuple[str, int]
"""A rollout's id and the number of the attempt."""

_UNKNOWN: dict[str, Any] = {"words": None, "text": "", "real": nan, "whole": 0, "flag": None}
_TOLD = {"rollout_id", "environment", "task_id", "sample", "attempt", "turns", "output_tokens"}
_NUMBERS: dict[str, Callable[[LiveState], int]] = {
    "sample": lambda state: state.sample,
    "attempt": lambda state: state.attempt,
    "turns": lambda state: state.turn,
    "output_tokens": lambda state: state.output_tokens,
}
_WORDS: dict[str, Callable[[LiveState], str]] = {
    "task_id": lambda state: state.task_id,
    "environment": lambda state: state.environment,
    "rollout_id": lambda state: state.rollout_id,
}


class InFlight:
    """The listed attempts in flight, the longest in flight first, or sorted by a value that is known of them."""

    def __init__(self) -> None:
        self.states: list[LiveState] = []
        self._rows: dict[Flight, int] = {}
        self._arrived: dict[Flight, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self.states)

    def row(self, flight: Flight) -> int | None:
        """The row of an attempt; None if it is not in flight or not listed."""
        return self._rows.get(flight)

    def take(self, states: Sequence[LiveState], query: RolloutQuery, task: tuple[str, str] | None) -> None:
        """Replace the attempts by those in flight now; `task` limits them to one environment and task id."""
        arrived: dict[Flight, int] = {}
        for state in reversed(states):  # the one that moved last comes first: of several new ones it is the newest
            flight = (state.rollout_id, state.attempt)
            number = self._arrived.get(flight)
            if number is None:
                number = self._count = self._count + 1
            arrived[flight] = number
        self._arrived = arrived
        kept = self._selected(states, query, task)
        kept.sort(key=lambda state: arrived[state.rollout_id, state.attempt])
        if key := _NUMBERS.get(query.sort) or _WORDS.get(query.sort):
            kept.sort(key=cast(Callable[[LiveState], Any], key), reverse=query.descending)
        self.states = kept
        self._rows = {(state.rollout_id, state.attempt): row for row, state in enumerate(kept)}

    def _selected(
        self, states: Sequence[LiveState], query: RolloutQuery, task: tuple[str, str] | None
    ) -> list[LiveState]:
        if not query.narrows:
            return list(states)
        # Without a transcript yet, and without an ending.
        if query.pattern is not None or query.errors or query.review or query.only is not None:
            return []
        kept = [state for state in states if task is None or (state.environment, state.task_id) == task]
        if query.search:
            kept = [state for state in kept if _is_close(query.search, state)]
        if query.where.text.strip() and kept:
            holds = query.where.bind(columns_of(kept))
            kept = [state for place, state in enumerate(kept) if holds(place)]
        return kept


def _is_close(search: str, state: LiveState) -> bool:
    return any(closeness(search, text) is not None for text in (state.task_id, state.environment, state.rollout_id))


def columns_of(states: Sequence[LiveState]) -> AttemptColumns:
    """The known values of attempts in flight as columns for filters; unknown values fail every comparison."""
    columns = AttemptColumns()
    rows: list[list[Any]] = []
    for place, state in enumerate(states):
        values = {name: _UNKNOWN[kind] for name, kind in KINDS.items()}
        values.update(
            rollout_id=state.rollout_id,
            environment=state.environment,
            task_id=state.task_id,
            sample=state.sample,
            attempt=state.attempt,
            turns=state.turn,
            output_tokens=state.output_tokens,
        )
        rows.append([place + 1, *(values[name] for name in SUMMARY_COLUMNS)])
    columns.append(rows)
    unknown: Any = columns.wholes
    for name in set(columns.wholes) - _TOLD:
        unknown[name] = array("d", [nan]) * len(states)
    return columns
