"""Check: the same seed gives the same tasks, prompts and tools every time."""

from rollouthub_registry.check.check_finding import Broken
from rollouthub_registry.check.checked_environment import AnyTask, CheckedEnvironment


async def same_seed_same_tasks(subject: CheckedEnvironment) -> str:
    """Check that two listings have equal tasks, and two episodes of a task start alike."""
    first, second = subject.tasks(), subject.tasks()
    problems = _differences(first, second)
    for task in first:
        openings = [await _opening(subject, task) for _ in range(2)]
        if openings[0] != openings[1]:
            problems.append(f"{task.id}: opens with other words or tools each time")
    if problems:
        raise Broken(
            "the same seed does not make the same tasks",
            "draw everything from random.Random(seed), in `tasks` and in `setup`; nothing from time or global state",
            problems,
        )
    return f"{len(first)} tasks come out the same"


def _differences(first: list[AnyTask], second: list[AnyTask]) -> list[str]:
    if len(first) != len(second):
        return [f"{len(first)} tasks the first time, {len(second)} the second"]
    return [
        f"{one.id}: the second time it is {f'{other.id!r}' if one.id != other.id else 'another task of the same id'}"
        for one, other in zip(first, second, strict=True)
        if one.digest != other.digest
    ]


async def _opening(subject: CheckedEnvironment, task: AnyTask) -> list[str]:
    async with subject.episode(task) as episode:
        return [item.model_dump_json() for plane in episode.seats.values() for item in (*plane.messages, *plane.tools)]
