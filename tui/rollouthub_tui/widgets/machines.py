"""The pane with what a run plays on: model servers, workers, sandboxes, and what rollouts in flight wait for."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widgets import Static

from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.views.terminal.machine_tables import backend_table, sandbox_table, staff_table
from rollouthub.views.terminal.stage_bar import flight_line
from rollouthub.views.terminal.text_fit import LABEL
from rollouthub_tui.widgets.machine_words import why_none


class MachinesPane(VerticalScroll):
    """The machines of a run, as its hub reports them every two seconds."""

    DEFAULT_CSS = """
    MachinesPane { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    MachinesPane Static { height: auto; width: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Scroll down", show=False),
        Binding("k,up", "scroll_up", "Scroll up", show=False),
        Binding("g,home", "scroll_home", "To the top", show=False),
        Binding("G,end", "scroll_end", "To the end", show=False),
        Binding("ctrl+d,pagedown", "page_down", "Page down", show=False),
        Binding("ctrl+u,pageup", "page_up", "Page up", show=False),
    ]

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._shown: Text | None = None
        self._run: WatchedRun | None = None

    def compose(self) -> ComposeResult:
        """One text."""
        yield Static(markup=False)

    def show(self, run: WatchedRun) -> None:
        """Show the machines' present state."""
        self._run = run
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        drawing = machines_text(run, width)
        if drawing != self._shown:
            is_as_high = self._shown is not None and str(drawing).count("\n") == str(self._shown).count("\n")
            self._shown = drawing
            self.query_one(Static).update(drawing.copy(), layout=not is_as_high)

    def on_resize(self) -> None:
        """Lay out for the new width."""
        if self._run is not None and self._run.is_open:
            self.show(self._run)


def machines_text(run: WatchedRun, width: int) -> Text:
    """Every machine of a run, or why none can be shown."""
    view, is_on = run.view, run.feed.info.status == "running"
    parts: list[Text] = []
    if is_on:
        total = None if view is None else view.in_flight
        parts = [_title("In flight"), flight_line(run.feed.live, width, 3, total=total, zeros=True), Text()]
    if not is_on or view is None:
        return Text("\n").join([*parts, _title("Machines"), *_wrapped(why_none(run), width)])
    parts.append(_title("Model servers"))
    if view.backends:
        parts.append(backend_table(view.backends, width))
    else:
        parts += _wrapped("none is called: its agent needs no model, or its workers have not told of any yet", width)
    parts += [Text(), _title("Workers")]
    if view.staff:
        parts.append(staff_table(view.staff, width))
    else:
        concurrency = "" if view.concurrency is None else f", up to {view.concurrency:,} at a time"
        parts += _wrapped(f"all episodes are played in the hub's own process, {view.pid}{concurrency}", width)
    parts += [Text(), _title("Sandboxes")]
    if view.sandboxes:
        parts.append(sandbox_table(view.sandboxes, width))
    else:
        parts += _wrapped("none in the hub's process or its workers'; served environments keep their own", width)
    return Text("\n").join(parts)


def _title(words: str) -> Text:
    return Text(words, "bold")


def _wrapped(words: str, width: int) -> list[Text]:
    lines: list[str] = [""]
    for word in words.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return [Text(line, LABEL) for line in lines]
