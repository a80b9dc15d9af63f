"""Tables of a run's model servers, workers and sandboxes."""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.text import Text

from rollouthub.live.control.live_views import BackendView, SandboxesView, WorkerView
from rollouthub.statistics import amounts
from rollouthub.views.terminal.text_fit import LABEL, column, cut, stack

_BACKEND_STATES = {"up": ("●", "green"), "cooling": ("◐", "yellow"), "open": ("✗", "red")}
_WORKER_STATES = {
    "starting": ("◔", "blue"),
    "playing": ("●", "green"),
    "idle": ("○", "bright_black"),
    "late": ("!", "yellow"),
    "leaving": ("◌", "yellow"),
    "gone": ("✗", "red"),
}
_FIGURE = 9


def backend_table(backends: Sequence[BackendView], width: int) -> Text:
    """A table of model servers; the reason why a server gets no calls is in the row below it."""
    titles = ["in flight", "calls", "errors", "p50", "p95"]
    # A model in the hub's own process is its own server.
    has_servers = any(backend.name != backend.model for backend in backends)
    room = width - 11 - (_FIGURE + 1) * len(titles)
    while room < 24 and len(titles) > 2:
        titles.remove("p50" if "p50" in titles else titles[-1])
        room = width - 11 - (_FIGURE + 1) * len(titles)
    model = _width((backend.model for backend in backends), 10, max(10, room // 2 if has_servers else room - 10))
    place = max(8, min(48, room - model - 10))
    lines = [
        _head((("state", 10), ("role", 8), ("model", model), *((("server", place),) if has_servers else ())), titles)
    ]
    for backend in backends:
        mark, style = _BACKEND_STATES[backend.state]
        line = Text.assemble((f"{mark} {backend.state:<8}", style), " ", column(backend.role, 8), " ")
        line.append(column(backend.model, model))
        line.append(f" {column(backend.name, place)}" if has_servers else "")
        line.append("".join(f"{_backend_cell(title, backend):>{_FIGURE + 1}}" for title in titles))
        lines.append(line)
        if backend.reason:
            lines.append(Text.assemble((f"  └ {cut(backend.reason, width - 4)}", style)))
    return _fitted(lines, width)


def _backend_cell(title: str, backend: BackendView) -> str:
    match title:
        case "in flight":
            return f"{backend.in_flight:,}"
        case "calls":
            return amounts.short(backend.calls)
        case "errors":
            return amounts.short(backend.errors)
        case "p50":
            return amounts.seconds(backend.latency_p50)
        case _:
            return amounts.seconds(backend.latency_p95)


def staff_table(staff: Sequence[WorkerView], width: int) -> Text:
    """A table of workers."""
    titles = ["in flight", "done"]
    room = width - 11 - (_FIGURE + 1) * len(titles)
    name = _width((worker.name for worker in staff), 8, max(8, room // 2))
    node = _width((worker.node for worker in staff), 6, max(6, room - name - 10))
    lines = [_head((("state", 10), ("worker", name), ("node", node), ("process", 8)), titles)]
    for worker in staff:
        mark, style = _WORKER_STATES.get(worker.state, ("?", "yellow"))
        line = Text.assemble((column(f"{mark} {worker.state}", 10), style), " ")
        process = amounts.NONE if worker.pid is None else str(worker.pid)
        line.append(f"{column(worker.name, name)} {column(worker.node, node)} {process:<8}")
        line.append(f"{worker.in_flight:>{_FIGURE + 1},}{worker.done:>{_FIGURE + 1},}")
        lines.append(line)
    return _fitted(lines, width)


def sandbox_table(sandboxes: Sequence[SandboxesView], width: int) -> Text:
    """A table of sandboxes by environment and provider."""
    titles = ["in use", "warm"]
    room = width - (_FIGURE + 1) * len(titles)
    name = _width((each.environment for each in sandboxes), 11, max(11, room // 2))
    provider = _width((each.provider for each in sandboxes), 8, max(8, room - name - 1))
    lines = [_head((("environment", name), ("provider", provider)), titles)]
    for each in sandboxes:
        line = Text(f"{column(each.environment, name)} {column(each.provider, provider)}")
        warm = amounts.NONE if each.warm is None else f"{each.warm:,}"
        lines.append(line.append(f"{each.in_use:>{_FIGURE + 1},}{warm:>{_FIGURE + 1}}"))
    return _fitted(lines, width)


def _width(names: Iterable[str], least: int, most: int) -> int:
    return max(least, min(most, max(map(cell_len, names), default=0)))


def _head(names: Sequence[tuple[str, int]], titles: Sequence[str]) -> Text:
    words = " ".join(column(name, room) for name, room in names)
    return Text(words + "".join(f"{title:>{_FIGURE + 1}}" for title in titles), LABEL)


def _fitted(lines: Sequence[Text], width: int) -> Text:
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return stack(lines)
