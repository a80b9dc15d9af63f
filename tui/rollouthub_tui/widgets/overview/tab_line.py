"""A line with the names of a run's panes, the current one highlighted."""

from collections.abc import Sequence

from rich.text import Text
from textual.events import Click
from textual.message import Message

from rollouthub_tui.widgets.line_panel import LinePanel


class TabLine(LinePanel):
    """The panes by number and name, with the number of items in each."""

    DEFAULT_CSS = "TabLine { height: 1; padding: 0 1; }"

    class Chosen(Message):
        """Posted when a name was clicked."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = tuple(names)
        self._ends: list[tuple[int, str]] = []
        self._shown: object = None

    def show_tabs(self, current: str, remarks: Sequence[str]) -> None:
        """Set the current pane, and the remark beside each name."""
        width = self.content_size.width
        if self._shown == (state := (current, tuple(remarks), width)):
            return
        self._shown = state
        line, self._ends = Text(), []
        if width < sum(len(name) + len(remark) + 6 for name, remark in zip(self._names, remarks, strict=True)):
            remarks = [""] * len(remarks)
        for number, (name, remark) in enumerate(zip(self._names, remarks, strict=True), 1):
            is_current = name == current
            # Brackets say it where there are no colours.
            before, after = ("[", "]") if is_current else (" ", " ")
            line.append(f"{before}{number} {name}", "bold cyan" if is_current else "")
            line.append(f" {remark}" if remark else "", "bright_black")
            line.append(f"{after} ", "bold cyan" if is_current else "")
            self._ends.append((line.cell_len, name))
        self.replace(line)

    def on_click(self, event: Click) -> None:
        """Choose the tab that was clicked."""
        at = event.x - self.styles.padding.left
        name = next((name for end, name in self._ends if at < end), None)
        if name is not None:
            self.post_message(self.Chosen(name))
