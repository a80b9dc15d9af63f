"""Dialogs that ask before an action: a yes-or-no question, a line of text, a choice."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Button, Input, Label, OptionList
from textual.widgets.option_list import Option

DIALOG_CSS = """
{name} {{ align: center middle; }}
{name} > Vertical {{
    width: 76; max-width: 96%; height: auto; max-height: 90%;
    padding: 1 2; border: round $primary; background: $surface;
}}
{name} Label {{ width: 1fr; }}
{name} .title {{ text-style: bold; }}
{name} .said {{ color: $text-muted; }}
{name} .wrong {{ color: $text-error; }}
{name} Horizontal {{ height: auto; margin-top: 1; align-horizontal: right; }}
{name} Button {{ margin-left: 2; }}
{name} OptionList {{ height: auto; max-height: 14; margin-top: 1; padding: 0; background: $surface; }}
{name} OptionList, {name} OptionList:focus {{ border: none; }}
"""


class AskScreen(ModalScreen[bool]):
    """A yes-or-no question; the answer is no unless yes is chosen."""

    AUTO_FOCUS = "#no"
    """From the first frame on Enter means no."""
    DEFAULT_CSS = DIALOG_CSS.format(name="AskScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n,escape,q", "answer(False)", "No"),
        Binding("left,h,right,l", "app.focus_next", "The other", show=False),
    ]

    def __init__(self, question: str, said: str = "", *, yes: str = "Yes") -> None:
        super().__init__()
        self._question, self._said, self._yes = question, said, yes

    def compose(self) -> ComposeResult:
        """The question, its consequences, and two buttons."""
        with Vertical():
            yield Label(Text(self._question), classes="title")
            yield Label(Text(self._said), classes="said")
            with Horizontal():
                yield Button(f"{self._yes} (y)", variant="error", id="yes")
                yield Button("No (n)", id="no")

    def on_button_pressed(self, event: Button.Pressed) -> None:
        """Answer by a button."""
        self.dismiss(event.button.id == "yes")

    def action_answer(self, is_yes: bool) -> None:
        """Answer by a key."""
        self.dismiss(is_yes)


class TextScreen(ModalScreen[str | None]):
    """Asks for a line of text; the result is None if it is dismissed."""

    DEFAULT_CSS = DIALOG_CSS.format(name="TextScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "Leave it", priority=True),
    ]

    def __init__(
        self,
        question: str,
        said: str = "",
        *,
        value: str = "",
        placeholder: str = "",
        wrong: Callable[[str], str | None] = lambda text: None,
        longest: int = 20_000,
        done: str = "send",
    ) -> None:
        """`wrong` gives what is wrong with a text, or None; the text is asked for again until nothing is. `done` is
        what Enter does with it.
        """
        super().__init__()
        self._question, self._said, self._wrong = question, said, wrong
        self._value, self._placeholder, self._longest, self._done = value, placeholder, longest, done

    def compose(self) -> ComposeResult:
        """The question, and an input line."""
        with Vertical():
            yield Label(Text(self._question), classes="title")
            yield Label(Text(self._said), classes="said")
            yield Input(self._value, placeholder=self._placeholder, max_length=self._longest)
            yield Label("", classes="wrong", id="wrong")
            yield Label(Text(f"enter: {self._done}   escape: leave it"), classes="said")

    @on(Input.Submitted)
    def take(self, event: Input.Submitted) -> None:
        """Return the text, or show what is wrong with it."""
        text = event.value.strip()
        problem = "write something, or press escape" if not text else self._wrong(text)
        if problem is None:
            self.dismiss(text)
        else:
            self.query_one("#wrong", Label).update(Text(problem))


class Choices(OptionList):
    """Textual's option list, without its crash when a page key is pressed while it has no height."""

    def action_page_up(self) -> None:
        """Move up by a page."""
        if self.scrollable_content_region:
            super().action_page_up()

    def action_page_down(self) -> None:
        """Move down by a page."""
        if self.scrollable_content_region:
            super().action_page_down()


class ChooseScreen(ModalScreen[int | None]):
    """Asks to choose one of several options; the result is None if it is dismissed."""

    DEFAULT_CSS = DIALOG_CSS.format(name="ChooseScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,h", "dismiss(None)", "Leave it"),
        Binding("j", "move('down')", "Down", show=False),
        Binding("k", "move('up')", "Up", show=False),
    ]

    def __init__(self, question: str, choices: Sequence[str], said: str = "") -> None:
        super().__init__()
        self._question, self._choices, self._said = question, choices, said

    def compose(self) -> ComposeResult:
        """The question, and the options."""
        with Vertical():
            yield Label(Text(self._question), classes="title")
            yield Label(Text(self._said), classes="said")
            yield Choices(*(Option(Text(choice)) for choice in self._choices), markup=False)

    def on_mount(self) -> None:
        """Focus the options."""
        self.query_one(OptionList).focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return the chosen option."""
        self.dismiss(event.option_index)

    def action_move(self, where: str) -> None:
        """Move the cursor down or up."""
        choices = self.query_one(OptionList)
        if where == "down":
            choices.action_cursor_down()
        else:
            choices.action_cursor_up()
