"""The help: what the keys of a screen do, and what its marks and words mean."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from rollouthub.views.terminal.outcome_styles import ENDINGS, NOT_PASSED, PARTIAL, PASSED
from rollouthub_tui.navigation import app_of

_VERDICTS = {
    PASSED.mark: "scored, and its verifier says that it passed",
    PARTIAL.mark: "scored, with a reward between 0 and 1 and no pass",
    NOT_PASSED.mark: "scored, and it did not pass",
}
_MEANINGS = {
    "scored": "played and scored: it has a reward, which may be low",
    "agent_failure": "the agent or its model's answer failed: no reward, the agent's own doing",
    "infrastructure_fault": "a server, sandbox or model backend failed: no reward, not the agent's doing",
    "verifier_fault": "the verifier failed: what the agent did was not judged",
    "cancelled": "ended by hand or with the run: no reward, and not a zero",
}
_SYMBOLS = {
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "exclamation_mark": "!",
    "question_mark": "?",
    "slash": "/",
    "number_sign": "#",
    "asterisk": "*",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "full_stop": ".",
    "comma": ",",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "colon": ":",
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "escape": "esc",
    "pageup": "pgup",
    "pagedown": "pgdn",
}
_NOT_NOW = "not now"
_HIDDEN = (
    "app.help_quit",
    "screen.copy_text",
    "app.focus",
    "command_palette",
    "screen.minimize",
    "page_left",
    "page_right",
)


@dataclass(frozen=True, slots=True)
class Key:
    """What one or several keys do."""

    keys: tuple[str, ...]
    does: str
    is_possible: bool


def shown_key(key: str) -> str:
    """The label of a key."""
    *modifiers, last = key.split("+")
    last = _SYMBOLS.get(last, last)
    return f"^{last}" if modifiers == ["ctrl"] else "+".join([*modifiers, last])


def keys_of(screen: Screen[object]) -> dict[str, list[Key]]:
    """The keys of a screen and what they do, grouped by the part of the screen where they work."""
    groups: dict[str, dict[tuple[str, str], tuple[list[str], bool]]] = {}
    for key, active in screen.active_bindings.items():
        binding = active.binding
        does = binding.description or binding.tooltip
        if not does or binding.system or binding.action.startswith(_HIDDEN):
            continue
        group = groups.setdefault(_group(active.node, binding), {})
        keys, _ = group.setdefault((binding.action, does), ([], active.enabled))
        keys.append(shown_key(key))
    order = [name for name in ("In the list", "Here", "Actions", "Everywhere") if name in groups]
    return {
        name: [Key(tuple(keys), does, is_possible) for (_, does), (keys, is_possible) in groups[name].items()]
        for name in order
    }


def _group(node: DOMNode, binding: Binding) -> str:
    if binding.action.startswith("steer("):
        return "Actions"
    if node is app_of(node) or binding.action.startswith("app."):
        return "Everywhere"
    return "Here" if isinstance(node, Screen) else "In the list"


def help_text(screen: Screen[object], width: int) -> Text:
    """The whole help, in columns."""
    lines = list(_lines(keys_of(screen), width))
    return Text("\n").join(lines)


def _lines(groups: dict[str, list[Key]], width: int) -> Iterator[Text]:
    margin = min(20, max((cell_len(" ".join(key.keys)) for keys in groups.values() for key in keys), default=0) + 2)
    for name, keys in groups.items():
        yield Text(name, "bold underline")
        for key in keys:
            does = key.does if key.is_possible else f"{key.does} ({_NOT_NOW})"
            yield from _wrapped(" ".join(key.keys), does, margin, width)
        if not all(key.is_possible for key in keys):
            yield from _wrapped("", f"What is {_NOT_NOW} possible says why when its key is pressed.", margin, width)
        yield Text()
    yield Text("Marks", "bold underline")
    for verdict in (PASSED, PARTIAL, NOT_PASSED):
        yield from _wrapped(f"{verdict.mark} {verdict.word}", _VERDICTS[verdict.mark], 24, width, style=verdict.style)
    for kind, ending in ENDINGS.items():
        yield from _wrapped(f"{ending.mark} {ending.word}", _MEANINGS[kind], 24, width, style=ending.style)
    yield Text()
    yield Text("Words", "bold underline")
    yield from _wrapped("–", "there is none: never a zero", margin, width)
    counting = "the attempt that counts for its sample: the first with a result, else the latest"
    yield from _wrapped("effective", counting, margin, width)


def _wrapped(head: str, said: str, margin: int, width: int, *, style: str = "bold") -> Iterable[Text]:
    room, line = max(20, width - margin), ""
    lines: list[str] = []
    for word in said.split():
        if line and cell_len(line) + 1 + cell_len(word) > room:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    lines.append(line)
    if cell_len(head) > margin - 1:
        yield Text(head, style)
        head = ""
    for index, each in enumerate(lines):
        start = head if index == 0 else ""
        yield Text.assemble((start, style), " " * (margin - cell_len(start)), each)


class HelpScreen(ModalScreen[None]):
    """The help for the screen below it."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle; }
    HelpScreen > VerticalScroll {
        width: 84; max-width: 100%; height: auto; max-height: 96%;
        padding: 0 1; border: round $primary; background: $surface;
        border-title-style: bold; scrollbar-size-vertical: 1;
    }
    HelpScreen Static { height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,h,backspace", "dismiss(None)", "Close"),
        Binding("j", "go('down')", "Down", show=False),
        Binding("k", "go('up')", "Up", show=False),
        Binding("ctrl+d,space", "go('page_down')", "Page down", show=False),
        Binding("ctrl+u", "go('page_up')", "Page up", show=False),
        Binding("g", "go('home')", "To the top", show=False),
        Binding("G", "go('end')", "To the end", show=False),
    ]

    def __init__(self, about: Screen[object]) -> None:
        super().__init__()
        self._about = about

    def compose(self) -> ComposeResult:
        """The text in a scrolling window."""
        window = VerticalScroll()
        window.border_title = "Help: keys and marks"
        window.border_subtitle = "j k: scroll   esc: close"
        with window:
            yield Static(help_text(self._about, min(76, app_of(self).size.width - 6)), markup=False)

    def action_go(self, where: str) -> None:
        """Scroll the help."""
        window = self.query_one(VerticalScroll)
        moves = {
            "down": window.scroll_down,
            "up": window.scroll_up,
            "page_down": window.scroll_page_down,
            "page_up": window.scroll_page_up,
            "home": window.scroll_home,
            "end": window.scroll_end,
        }
        moves[where](animate=False)
