"""Plays the rows of one call from NeMo-RL: yields results as episodes finish, and in the end one result for every
row.
"""

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
from rollouthub.generation import Sampling
from rollouthub.models.response_items import Bytes
from rollouthub.rollout import Rollout
from rollouthub.trainers.nemo_rl.results import FirstTokens, Result, first_tokens, gym_result, masked_result
from rollouthub.trainers.stream.open_worker import SampleRequest

logger = logging.getLogger(__name__)

Begin = Callable[[SampleRequest], Future[Rollout]]
Row = Mapping[str, Any]


@dataclass
class _TaskRows:
    """The rows of one call that name the same task."""

    task: TaskReference
    label: str
    size: int = 0
    """How many rows name the task."""
    samples: int = 0
    """How many samples of the group were started."""
    rewards: list[float] = field(default_factory=list[float])
    tokens: FirstTokens | None = None
    """The group's prompt and a first sampled token; None until a rollout reports them."""
    refused: dict[int, RefusalReason] = field(default_factory=dict[int, RefusalReason])
    """Rows to be masked at the end, by row index, with the reason."""


class Rows:
    """The rows of one call from NeMo-RL, while they are played."""

    def __init__(
        self,
        rows: Sequence[Row],
        begin: Begin,
        replays: int,
        media: Bytes | None = None,
        seat: str | None = None,
        *,
        scores_groups: Callable[[str], bool] = lambda environment: False,
    ) -> None:
        """`replays` is how often a row is replayed if its rollout must not be trained on; `media` returns the bytes
        of a picture by its digest. `seat` is the seat that is trained, if the policy plays several. `scores_groups`
        tells whether an environment scores the rows of a task together: none of them is then replayed.
        """
        self._rows, self._begin, self._media, self._seat = rows, begin, media, seat
        label = uuid4().hex
        self._groups: dict[TaskReference, _TaskRows] = {}
        self._group_of = [
            self._groups.setdefault(task, _TaskRows(task, label)) for task in (find_task(row) for row in rows)
        ]
        for group in self._group_of:
            group.size += 1
        self._left = [0 if scores_groups(group.task.environment) else replays for group in self._group_of]
        self.counts: dict[str, int] = defaultdict(int)
        """Counts of refused rollouts by reason, of replays (`replayed`) and of masked rows (`masked`)."""

    async def results(self) -> AsyncGenerator[tuple[int, Result]]:
        """Yield each row's index and result as episodes finish; masked rows come last.

        Raises:
            SupplyError: no rollout of a group has token ids, so no masked result can be made.
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
            group_size=group.size,
        )
        return asyncio.wrap_future(self._begin(wanted))

    def _result(self, place: int, rollout: Rollout) -> Result | None:
        """The row's result. None if its rollout must not be trained on; the row is then replayed while replays are
        left, or masked.
        """
        group, row = self._group_of[place], self._rows[place]
        if group.tokens is None:
            group.tokens = first_tokens(rollout, self._seat)
        try:
            result = gym_result(rollout, agent=row["agent_ref"]["name"], media=self._media, seat=self._seat)
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

    def _masked(self, place: int, group: _TaskRows, refused: RefusalReason) -> Result:
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
    """The generation settings that NeMo-RL writes into each row, as the hub's `Sampling`."""
    params = row["responses_create_params"]
    names = {"temperature": "temperature", "top_p": "top_p", "max_output_tokens": "max_tokens"}
    given = {ours: params[theirs] for theirs, ours in names.items() if params.get(theirs) is not None}
    return Sampling.model_validate(given) if given else None
