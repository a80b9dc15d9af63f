"""Reads two rollouts, compares them, and describes both; reading blocks."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rich.text import Text

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import count, number, seconds, short
from rollouthub.store import open_run
from rollouthub.views.terminal.outcome_styles import Ending, verdict_of
from rollouthub_tui.widgets.pair.difference import SAME, Difference, difference_of
from rollouthub_tui.widgets.pair.plain_transcript import transcript_of
from rollouthub_tui.widgets.safe_words import named
from rollouthub_tui.widgets.virtual_table import fitted

Name = tuple[str, int]
"""A rollout's id, and the number of the attempt."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts shown of one rollout of a pair."""

    name: Name
    sample: int
    ending: Ending
    reward: float | None
    components: dict[str, float]
    """What each component adds to the reward."""
    stop: str
    turns: int
    calls: int
    tokens: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RolloutPair:
    """Two rollouts with the difference of their transcripts."""

    first: Facts
    second: Facts
    difference: Difference


def read_pair(directory: Path, first: Name, second: Name) -> RolloutPair:
    """Read two rollouts of a run, and compare them.

    Raises:
        HubError: one of them cannot be read.
    """
    with open_run(directory) as reader:
        one, other = (reader.rollout(*name) for name in (first, second))
    return RolloutPair(_facts(one), _facts(other), difference_of(transcript_of(one), transcript_of(other)))


def _facts(rollout: Rollout) -> Facts:
    score = rollout.score
    return Facts(
        name=(rollout.rollout_id, rollout.attempt),
        sample=rollout.sample,
        ending=verdict_of(rollout.outcome.kind, score and score.passed, rollout.reward),
        reward=rollout.reward,
        components={name: part.value * part.weight for name, part in score.components.items()} if score else {},
        stop=rollout.stop.value.replace("_", " "),
        turns=len(rollout.turns),
        calls=sum(len(turn.tool_calls) for turn in rollout.turns),
        tokens=sum(turn.usage.output_tokens for turn in rollout.turns),
        seconds=rollout.timings.total,
    )


def heading(pair: RolloutPair, chosen: int, width: int, *, is_double: bool) -> Text:
    """Both rollouts with their results, the chosen one marked."""
    said = Text("")
    sides = enumerate((pair.first, pair.second))
    columns = [list(_lines(facts, side, is_double)) for side, facts in sides]
    if is_double:
        half = (width - 3) // 2
        for left, right in zip(*columns, strict=True):
            for side, (words, style) in enumerate((left, right)):
                mark = "▸ " if side == chosen and (words, style) == columns[side][0] else "  "
                said.append(fitted(mark + words, half), style="bold" if mark == "▸ " else style)
                said.append(" │ " if not side else "\n")
    else:
        for side, lines in enumerate(columns):
            said.append("▸ " if side == chosen else "  ", style="bold")
            for words, style in lines:
                said.append(f"{words}  ", style=style)
            said.append("\n")
    said.append(_parts(pair))
    return said


def _lines(facts: Facts, side: int, is_wide: bool) -> Iterator[tuple[str, str]]:
    rollout_id, attempt = facts.name
    name = f"{'AB'[side]} sample {facts.sample}" + (f", attempt {attempt}" if attempt else "")
    yield f"{name} · {named(rollout_id)}" if is_wide else name, ""
    ending = facts.ending
    reward = f", reward {number(facts.reward)}" if facts.reward is not None else ""
    stop = f", {facts.stop}" if is_wide or facts.stop != "finished" else ""
    yield f"{ending.mark} {ending.word}{reward}{stop}", ending.style
    amounts = [count(facts.turns, "turn"), f"{short(facts.tokens)} {'tokens' if is_wide else 'tok'}"]
    yield ", ".join([*amounts, count(facts.calls, "tool call"), seconds(facts.seconds)] if is_wide else amounts), ""


def _parts(pair: RolloutPair) -> str:
    """The difference of the rewards by component."""
    one, other = pair.first, pair.second
    rows = len(pair.difference)
    same = pair.difference.marks.count(SAME)
    many = len(pair.difference.changes)
    lines = f"{count(many, 'difference')}, {same:,} of {count(rows, 'line')} equal"
    if one.reward is None or other.reward is None:
        return lines
    names = [*one.components, *(name for name in other.components if name not in one.components)]
    apart = [
        f"{named(name)} {_step(one.components.get(name), other.components.get(name))}"
        for name in names
        if one.components.get(name) != other.components.get(name)
    ]
    return f"{lines}   reward B − A {other.reward - one.reward:+.3f}" + (f": {', '.join(apart)}" if apart else "")


def _step(one: float | None, other: float | None) -> str:
    return f"{number(one)} → {number(other)}"
