"""The dialog of quick and saved filters: one key each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList
from textual.widgets.option_list import Option

from rollouthub.text import plain_name
from rollouthub_tui.dialogs.questions import DIALOG_CSS, Choices

MOST_SAVED, LONGEST_NAME = 50, 40


@dataclass(frozen=True, slots=True)
class QuickFilter:
    """A filter with a key and a name."""

    key: str
    name: str
    text: str
    """The expression; empty for one that none says."""


QUICK = (
    QuickFilter("f", "not passed", "passed == false"),
    QuickFilter("p", "passed", "passed"),
    QuickFilter("u", "unscored", "reward == null"),
    QuickFilter("s", "suspect", "suspect"),
    QuickFilter("l", "stopped by a limit", 'stop ~ "limit"'),
    QuickFilter("r", "reviewed", "reviewed"),
    QuickFilter("o", "not reviewed", "not reviewed"),
    QuickFilter("a", "starred", "starred"),
    QuickFilter("n", "needs review", ""),
    QuickFilter("t", "of this task", ""),
)
"""Filters that everybody has; the last two are restrictions of their own."""


@dataclass(frozen=True, slots=True)
class FilterOrder:
    """What is asked of the list of rollouts: a filter, or that one is saved or deleted."""

    kind: Literal["filter", "review", "task", "save", "delete"]
    text: str = ""
    """The expression, or the name of the saved filter to delete."""


class QuickFilterScreen(ModalScreen[FilterOrder | None]):
    """Asks for a quick or saved filter; the result is None if it is dismissed."""

    DEFAULT_CSS = DIALOG_CSS.format(name="QuickFilterScreen")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Leave it"),
        Binding("j", "move('down')", "Down", show=False),
        Binding("k", "move('up')", "Up", show=False),
        Binding("S", "save", "Save the present filter under a name"),
        Binding("d,delete", "delete", "Delete the saved filter"),
    ]

    def __init__(self, saved: Mapping[str, str], present: str) -> None:
        """`saved` are filters by name; `present` is the expression of the list, which may be saved."""
        super().__init__()
        self._saved, self._present = dict(saved), present.strip()
        numbered = (
            QuickFilter(str(number) if number < 10 else "", name, text)
            for number, (name, text) in enumerate(self._saved.items(), 1)
        )
        self._filters = [*QUICK, *numbered]

    def compose(self) -> ComposeResult:
        """The filters, and the keys."""
        width = max(len(each.name) for each in self._filters)
        with Vertical():
            yield Label(Text("Show only rollouts that are …"), classes="title")
            yield Choices(*(Option(_line(each, width)) for each in self._filters), markup=False)
            saves = "S: save the present filter" if self._present else "S saves a filter that is set with f"
            keys = [saves, *(["d: delete a saved one"] if self._saved else []), "esc: leave it"]
            yield Label(Text("   ".join(keys)), classes="said")

    def on_mount(self) -> None:
        """Focus the list."""
        self.query_one(OptionList).focus()

    def on_key(self, event: events.Key) -> None:
        """Choose a filter by its key."""
        chosen = next((each for each in self._filters if each.key and each.key == event.character), None)
        if chosen is not None:
            event.stop()
            self.dismiss(_order(chosen))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Choose the filter at the cursor."""
        self.dismiss(_order(self._filters[event.option_index]))

    def action_save(self) -> None:
        """Save the present filter."""
        if self._present:
            self.dismiss(FilterOrder("save", self._present))

    def action_delete(self) -> None:
        """Delete the saved filter at the cursor."""
        place = self.query_one(OptionList).highlighted
        if place is not None and place >= len(QUICK):
            self.dismiss(FilterOrder("delete", self._filters[place].name))

    def action_move(self, where: str) -> None:
        """Move the cursor down or up."""
        choices = self.query_one(OptionList)
        if where == "down":
            choices.action_cursor_down()
        else:
            choices.action_cursor_up()


def _line(each: QuickFilter, width: int) -> Text:
    name = plain_name(each.name)
    return Text.assemble(
        (f"{each.key or ' '}  ", "bold"), f"{name:<{width}}  ", (plain_name(each.text), "dim"), no_wrap=True
    )


def _order(chosen: QuickFilter) -> FilterOrder:
    if chosen.text:
        return FilterOrder("filter", chosen.text)
    return FilterOrder("review" if chosen.key == "n" else "task")


def wrong_name(text: str) -> str | None:
    """What is wrong with a name of a filter; None if nothing is."""
    name = text.strip()
    if not 0 < len(name) <= LONGEST_NAME or plain_name(name) != name:
        return f"a name has 1 to {LONGEST_NAME} characters, on one line"
    return None
