"""An input line below a table that shows errors, and where they are, while a person types."""

from collections.abc import Callable
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.message import Message
from textual.widgets import Input, Label, Static

from rollouthub.errors import UsageError
from rollouthub.live.follow.filter import FilterError
from rollouthub.live.follow.transcript_search import PatternError

Check = Callable[[str], object]
"""Raises an error that says what is wrong with a text."""


class Entry(Vertical):
    """Asks for one text at a time; hidden otherwise."""

    DEFAULT_CSS = """
    Entry { height: auto; display: none; background: $panel; }
    Entry Horizontal { height: 1; }
    Entry Label { width: auto; padding: 0 1; text-style: bold; }
    Entry Input { width: 1fr; background: $panel; padding: 0; }
    Entry > Static { height: auto; padding: 0 1; color: $text-error; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Leave it", show=False, priority=True)]

    class Changed(Message):
        """Posted when the typed text has changed and is valid."""

        def __init__(self, asked: str, text: str) -> None:
            super().__init__()
            self.asked, self.text = asked, text

    class Entered(Changed):
        """Posted when a valid text is entered."""

    class Left(Message):
        """Posted when the line is left without entering a text."""

        def __init__(self, asked: str) -> None:
            super().__init__()
            self.asked = asked

    def __init__(self) -> None:
        super().__init__()
        self.asked = ""
        self._check: Check | None = None
        self._indent = 0

    def compose(self) -> ComposeResult:
        """A label, the input line, and a line for errors."""
        with Horizontal():
            yield Label(markup=False)
            yield Input(compact=True, select_on_focus=False)
        yield Static(id="problem", markup=False)

    def ask(self, asked: str, label: str, text: str, hint: str, check: Check | None = None) -> None:
        """Show the line and ask for a text, starting with the given one."""
        self.asked, self._check = asked, check
        self.query_one(Label).update(Text(label))
        self._indent = cell_len(label) + 1
        line = self.query_one(Input)
        line.placeholder = hint
        line.value = text
        line.cursor_position = len(text)
        self._say(None)
        self.display = True
        self.screen.set_focus(line)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what is wrong with the text, or post `Changed`."""
        event.stop()
        if self.display and self._is_understood(event.value):
            self.post_message(self.Changed(self.asked, event.value))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter the text if it is valid."""
        event.stop()
        if self._is_understood(event.value):
            self.display = False
            self.post_message(self.Entered(self.asked, event.value))

    def action_leave(self) -> None:
        """Leave the line without entering a text."""
        self.display = False
        self.post_message(self.Left(self.asked))

    def _is_understood(self, text: str) -> bool:
        if self._check is None or not text.strip():
            self._say(None)
            return True
        try:
            self._check(text)
        except (FilterError, PatternError) as error:
            self._say(error.problem, text, error.column)
            return False
        except UsageError as error:
            self._say(str(error))
            return False
        self._say(None)
        return True

    def _say(self, problem: str | None, text: str = "", column: int = 0) -> None:
        said = self.query_one("#problem", Static)
        said.display = problem is not None
        if problem is not None:
            line = self.query_one(Input)
            # The caret stands under the letter that is wrong, as far as that is in sight.
            at = self._indent + cell_len(text[:column]) - round(line.scroll_offset.x)
            caret = " " * max(0, min(at, self.size.width - 3)) + "^"
            said.update(Text(f"{caret}\n{problem} (at column {column + 1})", no_wrap=False))
