"""Verdicts, rewards and states of runs as HTML: the terminal's marks and colours, with a word for each."""

from functools import lru_cache

from rollouthub.live.follow.attempt_columns import AttemptColumns
from rollouthub.rollout import Outcome, OutcomeKind
from rollouthub.statistics.amounts import NONE, number
from rollouthub.views.markup import Markup, tag
from rollouthub.views.terminal.outcome_styles import Ending, heat, verdict_of
from rollouthub.views.terminal.run_status import standing

_KINDS: dict[str, OutcomeKind] = {outcome.value: outcome.kind for outcome in Outcome}


def colour(style: str) -> str | None:
    """The class of a terminal's colour; None for none."""
    return f"t-{style.removeprefix('bright_')}" if style else None


@lru_cache(256)
def mark(ending: Ending, *, has_word: bool = False, counts: bool = True) -> Markup:
    """The mark of a verdict; its word is shown beside it, or read by screen readers only."""
    word = tag("span", f" {ending.word}", class_=None if has_word else "sr")
    # Of an attempt that was replaced only the shape is shown.
    class_ = f"mark {colour(ending.style) if counts else 't-black'}"
    return tag("span", tag("span", ending.mark, aria_hidden="true"), word, class_=class_, title=ending.word)


def verdict_at(columns: AttemptColumns, place: int) -> Ending:
    """The verdict of a row."""
    passed, reward = columns.flags["passed"][place], columns.numbers["reward"][place]
    kind = _KINDS[columns.words["outcome"][place] or ""]
    return verdict_of(kind, None if passed < 0 else bool(passed), reward if reward == reward else None)


@lru_cache(1024)
def reward(value: float | None) -> Markup:
    """A reward in the colour of its height."""
    return tag("span", NONE) if value is None else tag("span", number(value), class_=colour(heat(value)))


def status(name: str, state: str | None = None) -> Markup:
    """The status of a run: its mark and its word."""
    shown = standing(name, state)
    inner = (tag("span", shown.mark, aria_hidden="true"), f" {shown.word}")
    return tag("span", *inner, class_=f"status {colour(shown.style)}", title=shown.meaning)
