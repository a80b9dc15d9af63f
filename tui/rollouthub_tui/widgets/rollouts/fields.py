"""The columns of the rollouts' table: which ones fit a width, and what each is sorted by."""

from collections.abc import Mapping
from dataclasses import dataclass

from rollouthub_tui.widgets.cells import Column, arrowed, next_order

GAP = 2
_LEAST_TASK, _MOST_TASK = 10, 48
_FIRST_NOTES = 24
"""Most cells that notes get before the other columns; what is left over makes them wider."""


@dataclass(frozen=True, slots=True)
class Field:
    """A column that can be shown."""

    name: str
    title: str
    width: int
    sort: str | None
    """Name of the feed's column to sort by; None if it cannot be sorted by."""
    is_right: bool = False
    most: int = 0
    """Largest width in cells that it grows to; 0 if it does not grow."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Facts about the run and the list that decide which columns are shown."""

    state: int = 14
    """Cells of the widest outcome."""
    task: int = _LEAST_TASK
    """Approximate cells of the widest task id."""
    environments: bool = False
    """Whether there are several environments."""
    samples: bool = True
    """Whether tasks have several samples."""
    retried: bool = False
    attempts: bool = False
    """Whether replaced attempts are listed, too."""
    components: bool = False
    matches: bool = False
    reviews: bool = False
    """Whether what needs a review is listed."""
    notes: int = 0
    """Cells of the widest notes on a rollout; 0 if nobody noted anything."""
    faults: bool = False
    costs: bool = False
    prompts: bool = True
    """Whether any rollout has a prompt, as far as they were read; so are the next two."""
    answers: bool = True
    feedbacks: bool = True
    sort: str = "seq"
    descending: bool = True


FIELDS = {
    field.name: field
    for field in (
        Field("state", "state", 10, "outcome"),
        Field("task", "task", _LEAST_TASK, "task_id", most=_MOST_TASK),
        Field("sample", "sample", 7, "sample", is_right=True),
        Field("attempt", "attempt", 7, "attempt"),
        Field("turns", "turns", 5, "turns", is_right=True),
        Field("calls", "calls", 5, "tool_calls", is_right=True),
        Field("input", "input", 6, "prompt_tokens", is_right=True),
        Field("tokens", "tokens", 6, "output_tokens", is_right=True),
        Field("reward", "reward", 7, "reward", is_right=True),
        Field("components", "components", 24, None, most=56),
        Field("match", "match", 24, None, most=110),
        Field("why", "why", 16, None, most=44),
        Field("notes", "notes", 6, "tag", most=40),
        Field("passed", "passed", 6, "passed"),
        Field("stop", "stop", 13, "stop"),
        Field("seconds", "time", 9, "seconds", is_right=True),
        Field("environment", "environment", 12, "environment", most=24),
        Field("fault", "fault", 20, "fault", most=36),
        Field("cost", "cost", 10, "cost", is_right=True),
        Field("prompt", "prompt", 28, None, most=240),
        Field("answer", "answer", 14, None, most=240),
        Field("feedback", "feedback", 26, None, most=240),
        Field("id", "rollout", 12, "rollout_id", most=28),
    )
}
"""All columns in the order in which they are shown; texts, components, matches and reasons cannot be sorted by."""
ELASTIC = {"prompt": 2, "answer": 1, "feedback": 2}
"""Columns of texts that share the width which is left, by their parts of it."""
_ALWAYS = ("state", "task", "turns", "tokens", "reward", "seconds")


def fit(shape: Shape, width: int) -> list[Column]:
    """The columns for a width in cells; space that is left goes to the columns that can grow."""
    widths = {name: FIELDS[name].width for name in _ALWAYS}
    widths["state"] = shape.state
    left = width - sum(widths.values()) - GAP * (len(widths) - 1)
    candidates = _candidates(shape)
    # Why something is listed comes first, and what was noted of it; then a task that can be read.
    for name in ("match", "why", "notes"):
        cells = min(shape.notes, _FIRST_NOTES, left - GAP) if name == "notes" else FIELDS[name].width
        cells = max(FIELDS[name].width, cells)
        if name in candidates and cells + GAP <= left:
            candidates.remove(name)
            widths[name] = cells
            left -= cells + GAP
    more = max(0, min(left, min(shape.task, 24) - widths["task"]))
    widths["task"] += more
    left -= more
    for name in candidates:
        cells = 10 if name == "attempt" and shape.attempts else FIELDS[name].width
        if cells + GAP <= left:
            widths[name] = cells
            left -= cells + GAP
    for name in ("task", "match", "why", "notes", "environment", "fault", *ELASTIC, "components", "id"):
        if name in widths:
            most = {"task": min(shape.task, _MOST_TASK), "notes": shape.notes}.get(name, FIELDS[name].most)
            most = min(most, FIELDS[name].most)
            more = max(0, min(_part(name, left, widths), most - widths[name]))
            widths[name] += more
            left -= more
    by = sort_field(shape.sort)
    return [
        arrowed(column, descending=shape.descending) if name == by else column
        for name, field in FIELDS.items()
        if name in widths
        for column in (Column(name, field.title, widths[name], field.is_right),)
    ]


def _part(name: str, left: int, widths: Mapping[str, int]) -> int:
    """The part of the width that is left for a column: all of it, but for texts after which others come."""
    if name not in ELASTIC:
        return left
    names = [other for other in ELASTIC if other in widths]
    return left * ELASTIC[name] // sum(ELASTIC[other] for other in names[names.index(name) :])


def _candidates(shape: Shape) -> list[str]:
    candidates = [
        ("match", shape.matches),
        ("why", shape.reviews),
        ("notes", shape.notes > 0),
        ("attempt", shape.attempts),
        ("environment", shape.environments),
        ("sample", shape.samples),
        ("feedback", shape.feedbacks),
        ("answer", shape.answers),
        ("prompt", shape.prompts),
        ("passed", shape.sort == "passed"),  # the state says it, too
        ("fault", shape.faults),
        ("stop", True),
        ("components", shape.components),
        ("attempt", shape.retried and not shape.attempts),
        ("calls", True),
        ("cost", shape.costs),
        ("id", True),
        ("input", True),
    ]
    return [name for name, is_there in candidates if is_there]


def sort_field(sort: str) -> str | None:
    """Name of the shown column for a sort order; None if there is none."""
    return next((name for name, field in FIELDS.items() if field.sort == sort), None)


def next_sort(sort: str, shown: list[str], step: int = 1) -> str:
    """The next sort order: by the next shown column, and after the last one by the order of finishing."""
    return next_order(["seq", *(by for name in shown if (by := FIELDS[name].sort))], sort, step)


def sort_words(sort: str, descending: bool) -> str:
    """A sort order in words."""
    if sort == "seq":
        return "newest first" if descending else "oldest first"
    shown = sort_field(sort)
    title = FIELDS[shown].title if shown else sort
    return f"by {title} {'▼' if descending else '▲'}"
