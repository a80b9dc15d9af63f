"""Selects the tasks of a split to play: by name, order, start and number."""

import random
from collections.abc import AsyncGenerator, Mapping
from fnmatch import fnmatchcase

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub.task import BadRow

MOST_LISTED = 1_000_000
"""Most tasks of a split whose ids are held in memory for a selection."""
MOST_SHUFFLED = 20_000
"""Most tasks of a split that can be shuffled: a host caches this many."""
_WILDCARDS = frozenset("*?[")


def chosen_tasks(
    host: EnvironmentHost, split: str, request: RunRequest, seed: int, missing: dict[str, UnknownNameError]
) -> AsyncGenerator[TaskCard | BadRow]:
    """The tasks of a split that a request selects.

    `chosen` and `tasks` name them, `shuffle` orders them, `skip` leaves out the first, `sample` draws some of the rest
    (in their order), and `limit` takes the first of what is left. The draw depends on the seed alone; a larger `sample`
    or `limit` selects all that a smaller one does. Names that match no task here are put into `missing`.

    Raises:
        DataError: a row is not a valid task, and bad rows are not skipped.
        ConfigError: the split has too many tasks for this selection, or two tasks with the same id.
    """
    names = list(dict.fromkeys(request.tasks))
    if request.chosen:
        ids = request.chosen.get(host.info.name, ())
        names = [task_id for task_id in ids if not names or any(fnmatchcase(task_id, name) for name in names)]
        if not names:
            return _none()
    has_patterns = any(_WILDCARDS & set(name) for name in names)
    chooses = request.shuffle or request.sample is not None
    if has_patterns or chooses:
        return _picked(host, split, request, seed, names, missing)
    if names:
        return _named(host, split, seed, names[request.skip :][: request.limit], missing)
    return _stretch(host, split, request, seed)


async def _picked(
    host: EnvironmentHost,
    split: str,
    request: RunRequest,
    seed: int,
    names: list[str],
    missing: dict[str, UnknownNameError],
) -> AsyncGenerator[TaskCard | BadRow]:
    ids: dict[str, None] = {}
    async for card in host.tasks(split, seed):
        if isinstance(card, BadRow):
            yield _skipped(card, request)
        elif card.public.id in ids:
            raise ConfigError(f"two tasks of {host.info.name} ({split}) have the id {card.public.id!r}")
        elif len(ids) == MOST_LISTED:
            raise ConfigError(
                f"{host.info.name} ({split}) has over {MOST_LISTED:,} tasks; name a part by skip and limit"
            )
        else:
            ids[card.public.id] = None
    chosen = _matching(ids, names, split, missing) if names else list(ids)
    for task_id in _drawn(chosen, request, f"{seed}\0{host.info.name}\0{split}", len(ids)):
        yield await host.find_task(split, task_id, seed)


async def _none() -> AsyncGenerator[TaskCard | BadRow]:
    return
    yield


async def _named(
    host: EnvironmentHost, split: str, seed: int, names: list[str], missing: dict[str, UnknownNameError]
) -> AsyncGenerator[TaskCard]:
    for name in names:
        try:
            yield await host.find_task(split, name, seed)
        except UnknownNameError as error:
            missing[name] = error


async def _stretch(
    host: EnvironmentHost, split: str, request: RunRequest, seed: int
) -> AsyncGenerator[TaskCard | BadRow]:
    """The tasks after the first `skip`, up to `limit`; bad rows are not counted."""
    count = 0
    end = None if request.limit is None else request.skip + request.limit
    async for card in host.tasks(split, seed):
        if isinstance(card, BadRow):
            yield _skipped(card, request)
            continue
        count += 1
        if count > request.skip:
            yield card
        if count == end:
            return


def _skipped(row: BadRow, request: RunRequest) -> BadRow:
    if not request.skip_bad:
        raise row.error
    return row


def _matching(ids: Mapping[str, None], names: list[str], split: str, missing: dict[str, UnknownNameError]) -> list[str]:
    """The ids that names match, in the order of the names; a name that is an id is not read as a pattern."""
    found: dict[str, None] = {}
    for name in names:
        matches = [name] if name in ids else []
        if not matches and _WILDCARDS & set(name):
            matches = [task_id for task_id in ids if fnmatchcase(task_id, name)]
        if not matches:
            missing[name] = UnknownNameError(f"task of split {split!r}", name, ids)
        found |= dict.fromkeys(matches)
    return list(found)


def _drawn(ids: list[str], request: RunRequest, chance: str, of: int) -> list[str]:
    if request.shuffle:
        if of > MOST_SHUFFLED:
            raise ConfigError(
                f"shuffle orders a split of at most {MOST_SHUFFLED:,} tasks, this one has {of:,}; "
                "draw some of them at random with sample (--sample N), which are played in their order"
            )
        random.Random(chance).shuffle(ids)
    ids = ids[request.skip :]
    if request.sample is not None:
        places = list(range(len(ids)))
        random.Random(f"{chance}\0sample").shuffle(places)
        ids = [ids[place] for place in sorted(places[: request.sample])]
    return ids[: request.limit]
