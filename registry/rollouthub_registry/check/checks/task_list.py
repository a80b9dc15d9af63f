"""Check: there are tasks, each has a unique id, and they are created one at a time."""

from collections.abc import Sized

from rollouthub import BadRow
from rollouthub.errors import ConfigError
from rollouthub_registry.check.check_finding import Broken
from rollouthub_registry.check.checked_environment import CheckedEnvironment

MOST = 2000
"""Number of tasks whose ids are compared."""
MOST_AT_ONCE = 200


async def tasks_are_listed(subject: CheckedEnvironment) -> str:
    """Check that ids are unique, task cards are JSON, and a large split is not built in memory."""
    listed = subject.environment.tasks(subject.config, subject.split, subject.seed)
    if isinstance(listed, Sized) and len(listed) > MOST_AT_ONCE:
        raise Broken(
            f"`tasks` returns all {len(listed):,} of them at once",
            "make it a generator: `yield Task(…)` instead of building a list",
        )
    places: dict[str, int] = {}
    repeated: list[str] = []
    count = 0
    for task in listed:
        if isinstance(task, BadRow):
            continue
        if task.id in places:
            repeated.append(f"{task.id!r} is the id of tasks {places[task.id]} and {count}")
        places.setdefault(task.id, count)
        try:
            assert task.digest
        except Exception as error:
            raise Broken(
                f"task {task.id!r} is not JSON: {error}",
                "keep plain values (text, numbers, lists, dicts) in both halves",
            ) from error
        count += 1
        if count == MOST:
            break
    if not count:
        raise ConfigError(f"environment {subject.name!r} has no task in split {subject.split!r}")
    if repeated:
        raise Broken(
            f"{len(repeated)} tasks have an id that another has",
            "build the id from what differs, such as the index",
            repeated,
        )
    return f"{count:,}{' or more' if count == MOST else ''} tasks in {subject.split!r}, ids unique"
