"""The line above a table that describes its content, its order, and how to undo restrictions."""

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from rollouthub_tui.widgets.line_panel import LinePanel

_MOST_LINES = 3


class Standing(LinePanel):
    """A text in parts, on as many lines as it needs."""

    DEFAULT_CSS = """
    Standing { height: 1; padding: 0 1; background: $surface; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._said: tuple[Sequence[str], int] = ((), 0)

    def say(self, parts: Sequence[str]) -> None:
        """Show these parts."""
        width = self.size.width or self.screen.size.width - 2
        said = (tuple(parts), width)
        if said == self._said:
            return
        self._said = said
        lines = [Text(line) for line in wrapped(parts, width)[:_MOST_LINES]]
        if self.styles.height is None or self.styles.height.value != len(lines):
            self.styles.height = len(lines)
        for line in lines:
            line.truncate(width, overflow="ellipsis")
        self.replace(Text("\n").join(lines))

    def on_resize(self) -> None:
        """Break the lines for the new width."""
        self.say(self._said[0])


def wrapped(parts: Sequence[str], width: int) -> list[str]:
    """The parts joined by dots, with line breaks only between them."""
    lines = [""]
    for part in parts:
        joined = f"{lines[-1]} · {part}" if lines[-1] else part
        if lines[-1] and cell_len(joined) > width:
            lines.append(part)
        else:
            lines[-1] = joined
    return lines
