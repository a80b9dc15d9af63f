"""Runs side by side: their figures on the tasks they share, the tasks that differ, and one task's worst samples."""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.analysis.compare.compared_run import ComparedRun, ComparedTask, read_compared
from rollouthub.analysis.compare.comparison import Comparison, compare_runs
from rollouthub.analysis.compare.task_pairs import TaskDifference, Verdict, judged_tasks, task_differences
from rollouthub.analysis.compare.worst_sample import worst_place
from rollouthub.errors import ConfigError
from rollouthub.statistics.amounts import NONE, count, number, p_value, signed
from rollouthub.text import plain_name
from rollouthub.views.markup import Markup, join, tag
from rollouthub.views.report.compared_facts import comparison_facts
from rollouthub.views.report.comparison_html import comparison_sections
from rollouthub.views.report.redacted_text import Plainness
from rollouthub.views.terminal.task_verdicts import VERDICTS
from rollouthub.views.web.links import Links
from rollouthub.views.web.opened_runs import OpenedRun
from rollouthub.views.web.page_frame import Crumb, page
from rollouthub.views.web.rollout_content import rollout_content
from rollouthub.views.web.rollout_page import name_of
from rollouthub.views.web.verdict_marks import colour, mark, verdict_at

MOST_COMPARED = 8
MOST_TASKS = 200
"""Tasks that are listed for each pair of runs."""
_TEST_SECONDS = 1.0
"""Seconds of testing for chance, for each pair of runs; what is not tested by then says so."""
_MOST_KEPT, _PLAYING_SECONDS = 4, 15.0
"""Comparisons that are kept, and seconds for which one of a run that plays is good enough."""
_ORDER: tuple[Verdict, ...] = ("worse", "lower", "unscored", "better", "higher", "same")


@dataclass(frozen=True)
class RunPairing:
    """A run against the first, task by task."""

    label: str
    tasks: Sequence[TaskDifference]
    tested: int


@dataclass(frozen=True)
class SideBySide:
    """Several runs, compared."""

    names: Sequence[str]
    """Their names in addresses."""
    comparison: Comparison
    pairs: Sequence[RunPairing]


def read_side_by_side(runs: Sequence[OpenedRun]) -> SideBySide:
    """Read and compare runs; the first is what the others are measured by. Blocking.

    Raises:
        ConfigError: fewer than two runs, too many, or runs without a common task.
        RunDirectoryError: a run cannot be read.
    """
    if len(runs) > MOST_COMPARED:
        raise ConfigError(f"at most {MOST_COMPARED} runs are compared at a time, not {len(runs)}")
    read = [_named(read_compared(run.watched.directory), run.name) for run in runs]
    comparison = compare_runs(read)
    return SideBySide([run.name for run in runs], comparison, [_pair(read[0], other) for other in read[1:]])


class KeptComparisons:
    """The comparisons that pages asked for last: they are made again when a run has something new."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, ...], tuple[object, float, SideBySide]] = OrderedDict()

    def read(self, runs: Sequence[OpenedRun]) -> SideBySide:
        """Compare runs, or give what was found for them as they are. Blocking; raises as `read_side_by_side`."""
        key, state = tuple(run.name for run in runs), [run.state for run in runs]
        kept, now = self._kept.get(key), time.monotonic()
        if kept is None or (kept[0] != state and not (_plays(runs) and now - kept[1] < _PLAYING_SECONDS)):
            kept = self._kept[key] = state, now, read_side_by_side(runs)
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return kept[2]


def _named(run: ComparedRun, name: str) -> ComparedRun:
    """A run that is labelled by its name and then its model: two checkpoints may be served as one model."""
    label = name if run.label in (name, run.info.place.name) else f"{name} · {run.label}"
    return ComparedRun(label, run.info, run.attempts)


def _plays(runs: Sequence[OpenedRun]) -> bool:
    return any(run.feed.info.status == "running" for run in runs)


def _pair(first: ComparedRun, other: ComparedRun) -> RunPairing:
    tasks, tested = judged_tasks(task_differences(first, other), _TEST_SECONDS)
    tasks.sort(key=lambda task: (_ORDER.index(task.verdict), -abs(task.difference or 0.0), task.key))
    return RunPairing(other.label, tasks, tested)


def compare_page(found: SideBySide, links: Links) -> str:
    """The page of runs side by side."""
    cards = comparison_sections(comparison_facts(found.comparison, Plainness(lambda text: text), 0))
    first, *others = found.names
    sections = [_tasks_section(pair, first, other, links) for pair, other in zip(found.pairs, others, strict=True)]
    names = [tag("a", plain_name(name), href=links.run(name)) for name in found.names]
    title = f"{len(found.names)} runs, side by side"
    head = tag("header", tag("h1", title), tag("p", [join(name, " ") for name in names]), class_="run-head")
    crumbs: list[Crumb] = [("runs", links.runs()), ("compare", None)]
    return page(title, head, cards, *sections, links=links, crumbs=crumbs, kind="compare")


def _tasks_section(pair: RunPairing, first: str, other: str, links: Links) -> Markup:
    counts: dict[Verdict, int] = {name: sum(task.verdict == name for task in pair.tasks) for name in _ORDER}
    tally = [tag("li", _verdict_words(name), f" {number:,}") for name, number in counts.items() if number]
    shown = pair.tasks[:MOST_TASKS]
    heads = ("verdict", "task", plain_name(first), plain_name(other), "difference", "p, adjusted")
    rows = [tag("tr", _cells(task, first, other, links)) for task in shown]
    table = tag(
        "table",
        tag(
            "thead",
            tag("tr", [tag("th", head, scope="col", class_="n" if at > 1 else None) for at, head in enumerate(heads)]),
        ),
        tag("tbody", rows),
        class_="tasks",
    )
    more = len(pair.tasks) - len(shown)
    notes = [f"and {count(more, 'more task')}"] if more else []
    if pair.tested < len(pair.tasks):
        notes.append(f"{pair.tested:,} of {len(pair.tasks):,} tasks were tested for chance")
    return tag(
        "section",
        tag("h2", f"Task by task: {plain_name(pair.label)}"),
        tag("ul", tally, class_="key"),
        tag("div", table, class_="wide", tabindex="0", role="group", aria_label="Tasks") if shown else None,
        [tag("p", note, class_="soft small") for note in notes],
    )


def _verdict_words(name: Verdict) -> Markup:
    words, style = VERDICTS[name]
    return tag("span", words, class_=colour(style))


def _cells(task: TaskDifference, first: str, other: str, links: Links) -> list[Markup]:
    name = plain_name(task.key.task_id)
    address = links.compare([first, other], task.key)
    words = [
        _verdict_words(task.verdict),
        tag("a", name, href=address) if address else name,
        number(task.first.mean_reward),
        number(task.second.mean_reward),
        signed(task.difference),
        p_value(task.adjusted),
    ]
    return [tag("td", word, class_="n" if at > 1 else None) for at, word in enumerate(words)]


@dataclass(frozen=True)
class TaskSide:
    """What one run shows of a task: the worst of its samples."""

    name: str
    """The run's name in addresses."""
    title: str
    verdict: Markup
    rollout_id: str | None
    content: Markup | None


def task_side(opened: OpenedRun, key: ComparedTask, links: Links, place: int) -> TaskSide:
    """The worst sample of a task in one run; `place` tells the anchors of one side from the other's."""
    feed = opened.feed
    at = worst_place(feed.columns, key)
    if at is None:
        return TaskSide(opened.name, "no sample", tag("span", NONE), None, None)
    (rollout,) = feed.records([at])
    content = rollout_content(
        rollout,
        tools=(),
        media_url=lambda digest: links.media(opened.name, digest) or "",
        turn_link=lambda turn: f"#side-{place}-turn-{turn + 1}",
    )
    # No text holds a quotation mark that is not escaped: these are attributes.
    apart = Markup(content.replace(' id="', f' id="side-{place}-'))
    sign = mark(verdict_at(feed.columns, at), has_word=True)
    return TaskSide(opened.name, name_of(rollout), sign, rollout.rollout_id, apart)


def task_sides_page(sides: Sequence[TaskSide], key: ComparedTask, links: Links) -> str:
    """One task in several runs, the worst sample of each side by side."""
    columns: list[Markup] = []
    for side in sides:
        address = links.rollout(side.name, side.rollout_id) if side.rollout_id else None
        title = tag("a", side.title, href=address) if address else side.title
        head = tag("header", tag("h2", plain_name(side.name)), tag("p", side.verdict, " ", title))
        columns.append(
            tag("div", head, side.content or tag("p", "It has no sample here.", class_="soft"), class_="side")
        )
    names = [side.name for side in sides]
    name = plain_name(key.task_id)
    crumbs: list[Crumb] = [("runs", links.runs()), ("compare", links.compare(names)), (name, None)]
    head = tag("header", tag("h1", name), tag("p", "The worst sample of each run.", class_="soft"), class_="run-head")
    return page(name, head, tag("div", columns, class_="sides"), links=links, crumbs=crumbs, kind="sides")
