"""Check: closing an episode works after any failure and releases everything it held."""

import os
from pathlib import Path

from rollouthub.errors import EpisodeError
from rollouthub_registry.check.argument_samples import well_formed
from rollouthub_registry.check.check_finding import Broken
from rollouthub_registry.check.checked_environment import CheckedEnvironment
from rollouthub_registry.check.scripted_episode import SUBMIT

EPISODES = 6


async def episodes_close(subject: CheckedEnvironment) -> str:
    """Check that episodes close without an error, used or not, also twice, and that no open files accumulate."""
    tasks = subject.tasks()
    problems: list[str] = []
    counts: list[int] = []
    for _ in range(2):  # the first round also fills caches that are meant to stay
        for number in range(EPISODES):
            problems += await _close_one(subject, number, tasks[number % len(tasks)].id)
        counts.append(_open_files())
    if problems:
        raise Broken(
            "an episode does not close cleanly",
            "`close` must cope with an episode that did little or nothing; it runs once, also after a failure",
            sorted(set(problems)),
        )
    if counts[1] - counts[0] >= EPISODES:
        raise Broken(
            f"{counts[1] - counts[0]} more files are open after {EPISODES} episodes",
            "close in `close` what `setup` and the tools opened: files, sockets, processes",
        )
    return f"{2 * EPISODES} episodes close"


async def _close_one(subject: CheckedEnvironment, number: int, task_id: str) -> list[str]:
    task = next(task for task in subject.tasks() if task.id == task_id)
    async with subject.episode(task) as episode:
        if number % 2:  # every other one is left as it was opened
            for plane in dict(episode.seats).values():
                for tool in plane.tools:
                    if tool.name != SUBMIT:
                        await plane.call_tool(tool.name, next(well_formed(tool)))
        try:
            await episode.close()
            await episode.close()
        except EpisodeError as error:
            return [str(error)]
    return []


def _open_files() -> int:
    """Number of files this process has open; 0 if the system does not tell."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.is_dir() else 0  # noqa: PTH208  # the names alone
