"""The columns of the rollouts' table: which are shown in so many cells, and what each is sorted by."""

from dataclasses import dataclass

from rollouthub_tui.widgets.cells import Column

GAP = 2
_LEAST_TASK, _MOST_TASK = 10, 48


@dataclass(frozen=True, slots=True)
class Field:
    """A column that may be shown."""

    name: str
    title: str
    width: int
    sort: str | None
    """The feed's column; None where its values are not kept."""
    is_right: bool = False
    most: int = 0
    """What it may grow to."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What there is to show."""

    state: int = 14
    """Cells of the widest ending."""
    task: int = 16
    """Cells of about the widest task."""
    environments: bool = False
    """Several."""
    samples: bool = True
    """Of a task, several."""
    retried: bool = False
    attempts: bool = False
    """Also those that a later one replaced are listed."""
    components: bool = False
    matches: bool = False
    faults: bool = False
    costs: bool = False
    sort: str = "seq"
    descending: bool = True


FIELDS = {
    field.name: field
    for field in (
        Field("state", "state", 10, "outcome"),
        Field("task", "task", _LEAST_TASK, "task_id", most=_MOST_TASK),
        Field("sample", "sample", 6, "sample", is_right=True),
        Field("attempt", "attempt", 7, "attempt"),
        Field("turns", "turns", 5, "turns", is_right=True),
        Field("calls", "calls", 5, "tool_calls", is_right=True),
        Field("prompt", "prompt", 6, "prompt_tokens", is_right=True),
        Field("tokens", "tokens", 6, "output_tokens", is_right=True),
        Field("reward", "reward", 7, "reward", is_right=True),
        Field("components", "components", 24, None, most=56),
        Field("match", "match", 24, None, most=110),
        Field("passed", "passed", 6, "passed"),
        Field("stop", "stop", 13, "stop"),
        Field("seconds", "time", 9, "seconds", is_right=True),
        Field("environment", "environment", 12, "environment", most=24),
        Field("fault", "fault", 20, "fault", most=36),
        Field("cost", "cost", 8, "cost", is_right=True),
        Field("id", "rollout", 12, "rollout_id", most=28),
    )
}
"""In the order they are shown; the feed knows no order by components or excerpts."""
_ALWAYS = ("state", "task", "turns", "tokens", "reward", "seconds")
_SORTED = tuple(field.sort for field in FIELDS.values() if field.sort)


def fit(shape: Shape, width: int) -> list[Column]:
    """The columns that fit so many cells; what is left goes to those that may grow."""
    widths = {name: FIELDS[name].width for name in _ALWAYS}
    widths["state"] = shape.state
    left = width - sum(widths.values()) - GAP * (len(widths) - 1)
    # A task that can be read comes before whatever else may be there.
    more = max(0, min(left, min(shape.task, 24) - widths["task"]))
    widths["task"] += more
    left -= more
    for name in _wanted(shape):
        cells = 10 if name == "attempt" and shape.attempts else FIELDS[name].width
        if cells + GAP <= left:
            widths[name] = cells
            left -= cells + GAP
    for name in ("task", "match", "environment", "fault", "components", "id"):
        if name in widths:
            most = min(shape.task, _MOST_TASK) if name == "task" else FIELDS[name].most
            more = max(0, min(left, most - widths[name]))
            widths[name] += more
            left -= more
    by = sort_field(shape.sort)
    return [
        Column(name, _title(field, shape.descending) if name == by else field.title, widths[name], field.is_right)
        for name, field in FIELDS.items()
        if name in widths
    ]


def _wanted(shape: Shape) -> list[str]:
    wanted = [
        ("match", shape.matches),
        ("attempt", shape.attempts),
        ("environment", shape.environments),
        ("sample", shape.samples),
        ("passed", True),
        ("fault", shape.faults),
        ("stop", True),
        ("components", shape.components),
        ("attempt", shape.retried and not shape.attempts),
        ("calls", True),
        ("cost", shape.costs),
        ("id", True),
        ("prompt", True),
    ]
    return [name for name, is_there in wanted if is_there]


def _title(field: Field, descending: bool) -> str:
    arrow = "▼" if descending else "▲"
    room = field.width - 1
    return arrow + field.title[:room] if field.is_right else f"{field.title[:room]}{arrow}"


def sort_field(sort: str) -> str | None:
    """The column that shows what rows are sorted by; None of one that no column shows."""
    return next((name for name, field in FIELDS.items() if field.sort == sort), None)


def next_sort(sort: str, shown: list[str]) -> str:
    """What comes after an order: the next of the shown columns, and after the last the order of finishing."""
    sorts = ["seq", *(by for name in shown if (by := FIELDS[name].sort))]
    return sorts[(sorts.index(sort) + 1) % len(sorts)] if sort in sorts else sorts[0]


def sort_words(sort: str, descending: bool) -> str:
    """An order in words."""
    if sort == "seq":
        return "newest first" if descending else "oldest first"
    shown = sort_field(sort)
    title = FIELDS[shown].title if shown else sort
    return f"by {title} {'▼' if descending else '▲'}"
