"""A rollout's conversation, score and times as groups of lines, such as one for each turn."""

from collections.abc import Iterator, Sequence

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import number, seconds, share
from rollouthub_tui.text.speakable_text import sentence
from rollouthub_tui.widgets.rollout.document import Piece, Section
from rollouthub_tui.widgets.rollout.drawable_text import drawn_line
from rollouthub_tui.widgets.rollout.outcome_facts import Fact, Mates, mates_facts, outcome_facts, training_facts
from rollouthub_tui.widgets.rollout.score_document import verdict
from rollouthub_tui.widgets.rollout.spans import Stretch, stretches, sums

_WIDEST = 10_000
"""Width in cells for titles made by the screens' functions, wide enough that nothing is cut."""
_SHORT = 200
"""Most characters of a text that goes on one line with its label."""
_TOLD_AS_FACTS = {"outcome", "components", "metrics", "mates", "training"}
"""Keys of score sections that are replaced by lists of facts here; the screens draw them."""


def section_lines(sections: Sequence[Section]) -> Iterator[Sequence[str]]:
    """The lines of each section: its title, then its pieces."""
    for section in sections:
        yield [title_of(section), *(line for piece in section.pieces for line in _piece_lines(piece))]


def title_of(section: Section) -> str:
    """The title line of a section."""
    return sentence(section.title(_WIDEST, True).plain)


def head_of(piece: Piece) -> str:
    """The heading of a piece; empty if it has none."""
    return "" if piece.head is None else sentence(piece.head.plain)


def _piece_lines(piece: Piece) -> Iterator[str]:
    head = head_of(piece)
    if piece.medium is not None:
        kind = "picture" if piece.medium.mime_type.startswith("image/") else "file"
        yield f"{kind} {drawn_line(piece.medium.mime_type, 40)}, {drawn_line(piece.medium.digest, 19)}"
    elif not head or not piece.text:
        yield from (head or piece.text).split("\n")
    elif "\n" in piece.text or len(piece.text) > _SHORT:
        yield f"{head}:"
        yield from piece.text.split("\n")
    else:
        yield f"{head}: {piece.text}"


def score_lines(rollout: Rollout, mates: Mates | None) -> Iterator[Sequence[str]]:
    """The score, or why there is none, its parts, the other samples' rewards, and the use for training."""
    yield fact_lines(outcome_facts(rollout))
    score = rollout.score
    if score is not None:
        parts = score.components.items()
        components = [f"component {drawn_line(name, 60)}: {number(part.value * part.weight)}, which is value "
                      f"{part.value:g} times weight {part.weight:g}" for name, part in parts]  # fmt: skip
        yield components + [f"metric {drawn_line(name, 60)}: {value:g}" for name, value in score.metrics.items()]
    others = [section for section in verdict(rollout, mates) if section.key not in _TOLD_AS_FACTS]
    yield from section_lines(others)
    if mates is not None and len(mates.rewards) > 1:
        yield ["Samples of the same task", *fact_lines(mates_facts(mates, rollout.reward))]
    yield ["For training", *fact_lines(training_facts(rollout))]


def fact_lines(facts: Sequence[Fact]) -> list[str]:
    """One `label: value` line for each fact; a fact without a label continues the line before it."""
    lines: list[str] = []
    for fact in facts:
        if fact.name or not lines:
            lines.append(sentence(f"{fact.name}: {fact.value}"))
        else:
            lines[-1] += f", {fact.value}"
    return lines


def timing_lines(rollout: Rollout) -> Iterator[Sequence[str]]:
    """Seconds of each stage, then of each model call and tool call."""
    lines: list[str] = []
    *stages, whole = sums(rollout)
    for each in (whole, *stages):
        part = "" if each.share is None or each is whole else f", {share(each.share)} of it"
        lines.append(f"{each.name}: {seconds(each.seconds)}{part}" + (f", {each.note}" if each.note else ""))
    yield lines
    yield [_stretch(each) for each in stretches(rollout)]


def _stretch(each: Stretch) -> str:
    kind = {"model": ", model", "tool": ", tool"}.get(each.kind, "")
    failed = ", failed" if each.is_error else ""
    return f"{each.name}{kind}: {seconds(each.seconds)}, {seconds(each.started)} after the start{failed}"
