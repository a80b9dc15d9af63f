"""The comparison of two runs in lines: which is better, whether by chance, and on which tasks."""

from pathlib import Path

import anyio.to_thread

from rollouthub.analysis.compare.compared_run import read_compared
from rollouthub.analysis.compare.task_pairs import TaskDifference, judged_tasks
from rollouthub.cli.run_lookup import find_watched
from rollouthub.errors import UsageError
from rollouthub_tui.text.last_listing import ShownRuns
from rollouthub_tui.text.pages import in_pages
from rollouthub_tui.text.position import Position, check_number
from rollouthub_tui.text.speakable_text import sentence
from rollouthub_tui.widgets.compare.comparison_words import detail, headline, tally
from rollouthub_tui.widgets.compare.run_pair import Pairing, pair_up

_WIDEST = 10_000


async def compare(session: Position, rest: str) -> None:
    """Compare the second run with the first, and show the result."""
    words = rest.split()
    if len(words) != 2:
        raise UsageError("compare which two runs? Say two numbers of the list of runs, or two names")
    first, second = [await _directory(session, word) for word in words]
    pairing = await anyio.to_thread.run_sync(_pair, first, second)
    judged, _ = await anyio.to_thread.run_sync(judged_tasks, pairing.tasks)
    for line in (*headline(pairing, _WIDEST).plain.splitlines(), tally(judged, None).plain):
        session.output.say(sentence(line))
    differing = [task for task in judged if task.difference]
    differing.sort(key=lambda task: task.difference or 0.0)
    session.read(in_pages(map(_task_words, differing)))


async def _directory(session: Position, word: str) -> Path:
    if word.isascii() and word.isdigit() and isinstance(session.shown, ShownRuns):
        check_number(int(word), len(session.shown.runs), "run")
        return session.shown.runs[int(word) - 1].directory
    return await find_watched(word, session.roots, session.environ)


def _pair(first: Path, second: Path) -> Pairing:
    return pair_up(read_compared(first), read_compared(second))


def _task_words(task: TaskDifference) -> str:
    return f"{task.verdict}: " + ", ".join(sentence(line) for line in detail(task).plain.splitlines())
