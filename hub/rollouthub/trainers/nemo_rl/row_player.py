"""Playing the rows of one call of NeMo-RL's: results as they come, and one for every row in the end."""

import asyncio
import logging
import math
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from rollouthub.errors import SupplyError
from rollouthub.export import NotTrainable, RefusalReason, TaskReference
from rollouthub.export.task_rows import find_task
from rollouthub.protocols import Sampling
from rollouthub.rollout import Rollout
from rollouthub.trainers.nemo_rl.results import FirstTokens, Result, first_tokens, gym_result, masked_result
from rollouthub.trainers.stream.open_worker import SampleRequest

logger = logging.getLogger(__name__)

Begin = Callable[[SampleRequest], Future[Rollout]]
Row = Mapping[str, Any]


@dataclass
class _Group:
    """The rows of one task."""

    task: TaskReference
    label: str
    samples: int = 0
    """How many were begun."""
    rewards: list[float] = field(default_factory=list[float])
    tokens: FirstTokens | None = None
    """What its members begin with, as far as one was seen."""
    refused: dict[int, RefusalReason] = field(default_factory=dict[int, RefusalReason])
    """Rows that are masked in the end, by their place."""


class Rows:
    """The rows of one call."""

    def __init__(self, rows: Sequence[Row], begin: Begin, replays: int) -> None:
        """`replays` is how often a row is played again whose rollout must not be learnt from."""
        self._rows, self._begin, self._replays = rows, begin, replays
        label = uuid4().hex
        self._groups: dict[TaskReference, _Group] = {}
        self._group_of = [
            self._groups.setdefault(task, _Group(task, label)) for task in (find_task(row) for row in rows)
        ]
        self._left = [replays] * len(rows)
        self.counts: dict[str, int] = defaultdict(int)
        """What was refused, by name, and how often a row was played again (`replayed`) or `masked`."""

    async def results(self) -> AsyncGenerator[tuple[int, Result]]:
        """The result of every row, with its place, as they are finished; those that are masked come last.

        Raises:
            SupplyError: not one member of a group began with token ids.
            UsageError, StoreError: as `RolloutWorker.play`.
        """
        playing = {self._play(place): place for place in range(len(self._rows))}
        try:
            while playing:
                done, _ = await asyncio.wait(playing, return_when=asyncio.FIRST_COMPLETED)
                for future in done:
                    place = playing.pop(future)
                    result = self._result(place, future.result())
                    if result is not None:
                        yield place, result
                    elif place not in self._group_of[place].refused:
                        playing[self._play(place)] = place
            for group in self._groups.values():
                for place, refused in group.refused.items():
                    yield place, self._masked(place, group, refused)
        finally:
            for future in playing:
                future.cancel()

    def _play(self, place: int) -> "asyncio.Future[Rollout]":
        group = self._group_of[place]
        sample, group.samples = group.samples, group.samples + 1
        task = group.task
        wanted = SampleRequest(
            task.task_id,
            environment=task.environment,
            split=task.split,
            group=group.label,
            sample=sample,
            sampling=_sampling(self._rows[place]),
        )
        return asyncio.wrap_future(self._begin(wanted))

    def _result(self, place: int, rollout: Rollout) -> Result | None:
        """The result; None where it must not be learnt from, to be played again while that may be."""
        group, row = self._group_of[place], self._rows[place]
        if group.tokens is None:
            group.tokens = first_tokens(rollout)
        try:
            result = gym_result(rollout, agent=row["agent_ref"]["name"])
        except NotTrainable as error:
            self.counts[error.refused.refusal.value] += 1
            logger.warning("%s", error)
            if self._left[place]:
                self._left[place] -= 1
                self.counts["replayed"] += 1
            else:
                group.refused[place] = error.refused
            return None
        group.rewards.append(result["reward"])
        # As it was asked for; NeMo-RL's own fields of the row included.
        played = result["responses_create_params"]
        result["responses_create_params"] = {**played, **row["responses_create_params"], "input": played["input"]}
        return {**row, **result}

    def _masked(self, place: int, group: _Group, refused: RefusalReason) -> Result:
        if group.tokens is None:
            raise SupplyError(
                f"no member of task {group.task.task_id!r} has token ids, not even its prompt's; the last: "
                f"{refused.reason}"
            )
        self.counts["masked"] += 1
        reward = math.fsum(group.rewards) / len(group.rewards) if group.rewards else 0.0
        row = self._rows[place]
        return {**row, **masked_result(row, refused, group.tokens, reward)}


def _sampling(row: Row) -> Sampling | None:
    """How NeMo-RL's generation settings, which it writes into each row, want it sampled."""
    params = row["responses_create_params"]
    names = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens"}
    given = {ours: params[theirs] for theirs, ours in names.items() if params.get(theirs) is not None}
    return Sampling.model_validate(given) if given else None
