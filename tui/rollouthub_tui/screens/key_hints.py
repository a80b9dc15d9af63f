"""Which keys are worth telling where: those that do something now, what is most likely wanted first."""

from collections.abc import Collection, Iterator, Sequence

from rollouthub.live.steering.availability import Action
from rollouthub_tui.widgets.key_line import KeyHint
from rollouthub_tui.widgets.rollouts.pane import RolloutsPane

_STEERING: dict[Action, KeyHint] = {
    "cancel": KeyHint("x", "x", "Cancel"),
    "interrupt": KeyHint("i", "i", "Interrupt"),
    "message": KeyHint("m", "m", "Message"),
    "shell": KeyHint("exclamation_mark", "!", "Shell"),
    "retry": KeyHint("r", "r", "Retry"),
    "pause": KeyHint("p", "p", "Pause"),
    "more": KeyHint("plus", "+", "More"),
    "fewer": KeyHint("minus", "-", "Fewer"),
    "rescore": KeyHint("R", "R", "Re-score"),
}
_OF_ROLLOUT: tuple[Action, ...] = ("cancel", "interrupt", "message", "shell", "retry")
_OF_MANY: tuple[Action, ...] = ("cancel", "interrupt", "retry")
_OF_RUN: tuple[Action, ...] = ("pause", "more", "fewer")
_OPEN = KeyHint("enter", "enter", "Open")
_NOTES = (KeyHint("number_sign", "#", "Tag"), KeyHint("asterisk", "*", "Star"), KeyHint("v", "v", "Reviewed"))
_LIST = (
    KeyHint("slash", "/", "Search"),
    KeyHint("f", "f", "Filter"),
    KeyHint("Q", "Q", "Quick"),
    KeyHint("s", "s", "Sort"),
    KeyHint("space", "space", "Mark"),
    KeyHint("e", "e", "Errors"),
    KeyHint("P", "P", "Preview"),
)
_DIFF = KeyHint("d", "d", "Diff")
_PANES = KeyHint("tab", "tab", "Pane")
_LISTS = KeyHint("enter", "enter", "List rollouts")


PAIR_HINTS = (
    KeyHint("n", "n", "Next difference"),
    KeyHint("tab", "tab", "Other side"),
    KeyHint("enter", "enter", "Open it"),
    KeyHint("right_square_bracket", "[ ]", "Sample"),
    KeyHint("z", "z", "Fold"),
    KeyHint("space", "space", "Unfold next"),
)
"""The keys at two rollouts side by side."""


def runs_hints(marked: int, *, is_asking: bool, narrowed: str) -> Iterator[KeyHint]:
    """The keys at the list of runs; `narrowed` names what leaves runs out, such as a search."""
    if is_asking:
        yield from (KeyHint("enter", "enter", "To the runs"), KeyHint("escape", "esc", "Leave"))
        return
    if narrowed:
        yield KeyHint("escape", "esc", f"End the {narrowed}")
    yield from (_OPEN, KeyHint("space", "space", "Mark"))
    yield KeyHint("c", "c", "Compare the marked" if marked else "Compare")
    yield from (KeyHint("slash", "/", "Search"), KeyHint("f", "f", "Filter"), KeyHint("s", "s", "Sort"))
    yield KeyHint("y", "y", "Copy path")


def compare_hints(sides: Sequence[str], chosen: int) -> Iterator[KeyHint]:
    """The keys at a comparison of two runs, of which the rollouts of one are opened."""
    yield KeyHint("enter", "enter", f"Open {sides[chosen]}'s worst")
    yield (
        KeyHint("less_than_sign", "<", f"Open {sides[0]}'s")
        if chosen
        else KeyHint("greater_than_sign", ">", f"Open {sides[1]}'s")
    )
    yield from (KeyHint("s", "s", "Sort"), KeyHint("S", "S", "Reverse"))
    yield KeyHint("tab", "tab", f"Swap {sides[0]} and {sides[1]}")


def steering_hints(actions: Collection[Action], possible: Collection[Action]) -> Iterator[KeyHint]:
    """The keys of those actions that are possible."""
    yield from (_STEERING[action] for action in actions if action in possible)


def list_hints(pane: RolloutsPane, possible: Collection[Action], *, is_paused: bool) -> Iterator[KeyHint]:
    """The keys at the list of rollouts, for the rollout at the cursor or those marked."""
    if pane.is_asking:
        yield from (KeyHint("enter", "enter", "Apply"), KeyHint("escape", "esc", "Leave"))
        return
    if pane.rollout_query.latest:
        yield KeyHint("escape", "esc", f"Clear {pane.rollout_query.latest[-1]}")
    if count := len(pane.table.marked):
        yield KeyHint("U", "U", f"Unmark {count:,}")
        yield from steering_hints(_OF_MANY, possible)
        yield from (*_NOTES, KeyHint("c", "c", "Comment"), KeyHint("A", "A", "All or none"))
        return
    target = pane.target
    if target is not None:
        yield _OPEN
        yield from steering_hints(_OF_ROLLOUT, possible)
    yield from _LIST
    if target is not None and target.place is not None:
        yield from (_DIFF, *_NOTES)
    yield from run_hints(possible, is_paused=is_paused)


def pane_hints(name: str, possible: Collection[Action], *, is_paused: bool) -> Iterator[KeyHint]:
    """The keys of a run's other panes."""
    if name == "tasks":
        yield from (_LISTS, KeyHint("s", "s", "Sort"), KeyHint("S", "S", "Reverse"))
    if name == "breakdown":
        yield from (_LISTS, KeyHint("right", "← →", "By something else"))
    yield _PANES
    yield from run_hints(possible, is_paused=is_paused)
    yield from steering_hints(("rescore",), possible)


def run_hints(possible: Collection[Action], *, is_paused: bool) -> Iterator[KeyHint]:
    """The keys that steer the run."""
    for hint in steering_hints(_OF_RUN, possible):
        yield hint._replace(word="Go on") if hint.key == "p" and is_paused else hint


def rollout_hints(
    tab: str, possible: Collection[Action], *, is_asking: bool, has_matches: bool, has_record: bool, has_list: bool
) -> Iterator[KeyHint]:
    """The keys at a rollout."""
    if is_asking:
        yield from (KeyHint("enter", "enter", "Find"), KeyHint("escape", "esc", "Leave"))
        return
    yield from steering_hints(_OF_ROLLOUT, possible)
    if has_matches:
        yield from (KeyHint("n", "n", "Next match"), KeyHint("escape", "esc", "Forget it"))
    if tab in ("conversation", "score", "record"):
        yield from (KeyHint("slash", "/", "Find"), KeyHint("space", "space", "Fold"))
    if tab == "conversation":
        yield from (KeyHint("J", "J", "Turn"), *([] if has_matches else [KeyHint("n", "n", "Error")]))
        yield KeyHint("s", "s", "JSON")
    if tab == "tokens":
        yield KeyHint("right", "← →", "Token")
    if has_list:
        yield KeyHint("right_square_bracket", "[ ]", "Beside")
    yield KeyHint("tab", "tab", "Tab")
    if has_record:
        yield from (_DIFF, *_NOTES)
