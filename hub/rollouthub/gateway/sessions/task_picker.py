"""Picks tasks of an environment: in order, starting again after the last, or at random."""

import random
from collections.abc import AsyncIterator

import anyio

from rollouthub.engine.open_environment import OpenEnvironment
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.protocols import TaskCard
from rollouthub.task import BadRow

SHUFFLED = 100_000
"""Random tasks are picked from the first this many tasks of a split."""


class TaskPicker:
    """The tasks of one environment. Rows that make no task are skipped and counted."""

    def __init__(
        self,
        environment: OpenEnvironment,
        seed: int,
        limit: int | None,
        random_seed: int | None,
        split: str | None = None,
    ) -> None:
        """`limit` uses only the first this many tasks of a split; `random_seed` makes random picks repeatable.

        `split` is the default split to pick from, if not the served one.

        Raises:
            UnknownNameError: there is no such split.
        """
        self._environment, self.seed, self._limit = environment, seed, limit
        self._random = random.Random(random_seed)
        self._decks: dict[str, AsyncIterator[TaskCard]] = {}
        self._ids: dict[str, tuple[str, ...]] = {}
        self._lock = anyio.Lock()
        self.bad_rows = 0
        self._split = environment.split
        self._split = self.split(split)

    async def find(self, split: str | None, task_id: str) -> TaskCard:
        """A task by its id.

        Raises:
            UnknownNameError: there is no such split or task.
        """
        return await self._environment.host.find_task(self.split(split), task_id, self.seed)

    async def following(self, split: str | None) -> TaskCard:
        """The next task of a split.

        Raises:
            HubError: the split has no task.
        """
        name = self.split(split)
        async with self._lock:
            for _ in range(2):
                deck = self._decks.get(name)
                if deck is None:
                    deck = self._decks[name] = self._cards(name)
                card = await anext(deck, None)
                if card is not None:
                    return card
                del self._decks[name]
        raise ConfigError(f"there is no task in {self._environment.host.info.name} ({name})")

    async def any(self, split: str | None) -> TaskCard:
        """A random task of a split.

        Raises:
            HubError: the split has no task.
        """
        name = self.split(split)
        async with self._lock:
            if name not in self._ids:
                ids = list[str]()
                async for card in self._cards(name):
                    ids.append(card.public.id)
                    if len(ids) == SHUFFLED:
                        break
                self._ids[name] = tuple(ids)
            ids = self._ids[name]
        if not ids:
            raise ConfigError(f"there is no task in {self._environment.host.info.name} ({name})")
        return await self.find(name, self._random.choice(ids))

    def split(self, given: str | None) -> str:
        """The name of an existing split; None gives the default.

        Raises:
            UnknownNameError: there is no split of this name.
        """
        info = self._environment.host.info
        if given is None:
            return self._split
        if given not in info.splits:
            raise UnknownNameError(f"split of {info.name}", given, info.splits)
        return given

    async def _cards(self, split: str) -> AsyncIterator[TaskCard]:
        count = 0
        async for card in self._environment.host.tasks(split, self.seed):
            if isinstance(card, BadRow):
                self.bad_rows += 1
                continue
            yield card
            count += 1
            if count == self._limit:
                return
