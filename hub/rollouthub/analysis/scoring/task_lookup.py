"""Finds tasks by id, in any order of ids."""

from collections.abc import AsyncIterator

import anyio

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub.task import BadRow

CAPACITY = 250_000
"""Maximum number of task cards held in memory; tasks beyond it are looked up at the host, which may read the split
again.
"""
_NEAREST = 5000
"""Number of ids that are searched for the nearest match of an unknown id."""


class TaskIndex:
    """The task cards of one split, read as far as needed."""

    def __init__(self, host: EnvironmentHost, split: str, seed: int, *, skip_bad: bool) -> None:
        self._host, self._split, self._seed, self._skip_bad = host, split, seed, skip_bad
        self._kept: dict[str, TaskCard] = {}
        self._reading: AsyncIterator[TaskCard | BadRow] | None = None
        self._is_read = False
        self._lock = anyio.Lock()

    def kept(self, task_id: str) -> TaskCard | None:
        """The task's card, if it has been read already; else None."""
        return self._kept.get(task_id)

    async def find(self, task_id: str) -> TaskCard:
        """Return the card of a task, reading on in the split as needed.

        Raises:
            UnknownNameError: the split has no task of this id.
            ConfigError: the split has no tasks.
            DataError: a row before the task is bad, and bad rows are not skipped.
        """
        async with self._lock:
            card = self._kept.get(task_id) or await self._read_on(task_id)
        if card is not None:
            return card
        if len(self._kept) >= CAPACITY:
            return await self._host.find_task(self._split, task_id, self._seed)
        names = list(self._kept)
        if not names:
            raise ConfigError(f"{self._host.info.name} ({self._split}) has no tasks")
        raise UnknownNameError(f"task of {self._host.info.name} ({self._split})", task_id, names[:_NEAREST])

    async def _read_on(self, task_id: str) -> TaskCard | None:
        if self._is_read or len(self._kept) >= CAPACITY:
            return None
        if self._reading is None:
            self._reading = aiter(self._host.tasks(self._split, self._seed))
        async for card in self._reading:
            if isinstance(card, BadRow):
                if not self._skip_bad:
                    raise card.error
                continue
            self._kept.setdefault(card.public.id, card)
            if card.public.id == task_id:
                return card
            if len(self._kept) >= CAPACITY:
                return None
        self._is_read = True
        return None
