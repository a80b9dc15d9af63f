"""The cells of a rollout's line, with a record or in flight."""

from collections.abc import Callable, Mapping
from functools import lru_cache

from rich.cells import cell_len, set_cell_size

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.live.follow.row_reader import Components
from rollouthub.rollout import Outcome
from rollouthub.statistics.amounts import NONE, clock, dollars, number, seconds, short
from rollouthub.store import LiveState
from rollouthub.text import plain_name
from rollouthub.views.note_words import note_mark
from rollouthub.views.terminal.outcome_styles import ENDINGS, heat, verdict_of
from rollouthub_tui.widgets.cells import EMPTY, Cell

_OUTCOMES = {outcome.value: outcome for outcome in Outcome}
_MISSING = Cell(NONE)
_QUIET = "bright_black"


@lru_cache(8192)
def name_of(text: str) -> str:
    """A name for a table: plain text in one line, of characters with a fixed width."""
    return plain_name(text)


def shortened(text: str, width: int) -> str:
    """A name cut to a width in the middle, since tasks' names often differ at the end."""
    length = len(text) if text.isascii() else cell_len(text)
    if length <= width or width < 8:
        return text
    head = set_cell_size(text, width // 3)
    tail = text[-1:]
    for letter in reversed(text[:-1]):
        if cell_len(head) + 1 + cell_len(letter + tail) > width:
            break
        tail = letter + tail
    return f"{head}…{tail}"


def ending(outcome: str | None, *, counts: bool = True) -> Cell:
    """An outcome as a cell: its mark and colour, and a word for what broke."""
    known = _OUTCOMES.get(outcome or "")
    if known is None:
        return _MISSING
    kind = ENDINGS[known.kind]
    return Cell(f"{kind.mark} {known.value.replace('_', ' ')}", kind.style if counts else _QUIET)


def components(parts: Components | None) -> str:
    """The components of a reward as text."""
    return "  ".join(f"{name_of(name)} {number(value)}" for name, value in (parts or {}).items())


def done_cell(columns: AttemptColumns, place: int, name: str) -> Cell:
    """A cell of a rollout with a record."""
    word = _DONE.get(name)
    return word(columns, place) if word else EMPTY


def live_cell(state: LiveState, name: str, now: float, *, plays: bool) -> Cell:
    """A cell of a rollout in flight; if its run no longer plays, of one left unfinished."""
    match name:
        case "state":
            if not plays:
                return Cell(f"✗ left in {state.state}", "yellow")
            return Cell(f"{'·' if state.state == 'queued' else '▸'} {state.state} {moved(state, now)}", "cyan")
        case "task":
            return Cell(name_of(state.task_id))
        case "environment":
            return Cell(name_of(state.environment))
        case "sample":
            return Cell(str(state.sample))
        case "attempt":
            return Cell(str(state.attempt))
        case "turns":
            return Cell(str(state.turn))
        case "tokens":
            return Cell(short(state.output_tokens))
        case "reward" | "passed" | "seconds":
            return _MISSING
        case "id":
            return Cell(name_of(state.rollout_id), _QUIET)
        case _:
            return EMPTY


def moved(state: LiveState, now: float) -> str:
    """How long ago the rollout last made progress."""
    return f"+{clock(max(0.0, now - state.updated_at))}"


def _word(column: str, style: str = "") -> Callable[[AttemptColumns, int], Cell]:
    def worded(columns: AttemptColumns, place: int) -> Cell:
        text = columns.words[column][place]
        return Cell(name_of(text), style) if text else EMPTY

    return worded


def _whole(column: str) -> Callable[[AttemptColumns, int], Cell]:
    return lambda columns, place: Cell(str(columns.wholes[column][place]))


def _tokens(column: str) -> Callable[[AttemptColumns, int], Cell]:
    return lambda columns, place: Cell(short(columns.wholes[column][place]))


def _state(columns: AttemptColumns, place: int) -> Cell:
    counts, outcome = bool(columns.effective[place]), columns.words["outcome"][place]
    if outcome != Outcome.SCORED.value:
        return ending(outcome, counts=counts)
    flag, reward = columns.flags["passed"][place], columns.numbers["reward"][place]
    shown = verdict_of("scored", None if flag < 0 else bool(flag), reward)
    return Cell(f"{shown.mark} {shown.word}", shown.style if counts else _QUIET)


def _attempt(columns: AttemptColumns, place: int) -> Cell:
    said = str(columns.wholes["attempt"][place])
    return Cell(said) if columns.effective[place] else Cell(f"{said} replaced", _QUIET)


def _reward(columns: AttemptColumns, place: int) -> Cell:
    reward = columns.numbers["reward"][place]
    return Cell(number(reward), heat(reward)) if reward == reward else _MISSING


def _cost(columns: AttemptColumns, place: int) -> Cell:
    cost = columns.numbers["cost"][place]
    return Cell(dollars(cost)) if cost == cost else _MISSING


def _passed(columns: AttemptColumns, place: int) -> Cell:
    flag = columns.flags["passed"][place]
    return _MISSING if flag < 0 else Cell("yes" if flag else "no")


def _stop(columns: AttemptColumns, place: int) -> Cell:
    return Cell((columns.words["stop"][place] or NONE).replace("_", " "))


def _seconds(columns: AttemptColumns, place: int) -> Cell:
    return Cell(seconds(columns.numbers["seconds"][place]))


def _notes(columns: AttemptColumns, place: int) -> Cell:
    return Cell(name_of(note_mark(columns.notes_at(place))), "yellow")


def _id(columns: AttemptColumns, place: int) -> Cell:
    return Cell(name_of(columns.texts["rollout_id"][place]), _QUIET)


_DONE: Mapping[str, Callable[[AttemptColumns, int], Cell]] = {
    "state": _state,
    "task": _word("task_id"),
    "sample": _whole("sample"),
    "attempt": _attempt,
    "turns": _whole("turns"),
    "calls": _whole("tool_calls"),
    "input": _tokens("prompt_tokens"),
    "tokens": _tokens("output_tokens"),
    "reward": _reward,
    "passed": _passed,
    "stop": _stop,
    "seconds": _seconds,
    "environment": _word("environment"),
    "fault": _word("fault"),
    "cost": _cost,
    "notes": _notes,
    "id": _id,
}
