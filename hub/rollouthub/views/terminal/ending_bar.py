"""How rollouts ended: one bar of shares with a legend, and counts of stop reasons and faults."""

from collections.abc import Mapping
from math import floor

from rich.text import Text

from rollouthub.rollout import OutcomeKind
from rollouthub.statistics.amounts import share
from rollouthub.views.terminal.outcome_styles import ENDINGS
from rollouthub.views.terminal.text_fit import LABEL, cut, flow


def outcome_bar(kinds: Mapping[OutcomeKind, int], width: int) -> Text:
    """A bar divided among kinds of outcome by their share; each kind that occurred gets at least one cell."""
    counts: dict[OutcomeKind, int] = {kind: kinds.get(kind, 0) for kind in ENDINGS}
    if not any(counts.values()):
        return Text("─" * width, LABEL)
    bar = Text()
    for kind, cells in _cells(counts, width).items():
        bar.append(_fill(kind) * cells, ENDINGS[kind].style)
    return bar


def _fill(kind: OutcomeKind) -> str:
    return "█" if kind == "scored" else ENDINGS[kind].mark


def _cells(counts: Mapping[OutcomeKind, int], width: int) -> dict[OutcomeKind, int]:
    total = sum(counts.values())
    exact: dict[OutcomeKind, float] = {kind: count * width / total for kind, count in counts.items() if count}
    cells: dict[OutcomeKind, int] = {kind: max(1, floor(share)) for kind, share in exact.items()}
    while sum(cells.values()) > width:  # those that were given a cell they had no share of
        cells[max(cells, key=lambda kind: cells[kind])] -= 1
    for kind in sorted(exact, key=lambda kind: cells[kind] - exact[kind]):
        if sum(cells.values()) < width:
            cells[kind] += 1
    cells[max(cells, key=lambda kind: cells[kind])] += width - sum(cells.values())
    return cells


def outcome_legend(kinds: Mapping[OutcomeKind, int], width: int, most: int = 3, *, zeros: bool = False) -> Text:
    """The legend of the bar: mark, kind, count and share; `zeros` includes kinds that did not occur."""
    total = sum(kinds.values())
    parts: list[Text] = []
    for kind, ending in ENDINGS.items():
        count = kinds.get(kind, 0)
        if not count and not zeros:
            continue
        word = ending.word if count == 1 else ending.plural
        part = Text.assemble((_fill(kind), ending.style), f" {word} ", (f"{count:,}", "bold" if count else LABEL))
        if total and count:
            part.append(f" {share(count / total)}", LABEL)
        parts.append(part)
    if not parts:
        return Text("nothing has ended yet", LABEL)
    return flow(parts, width, most)


def tally(title: str, counts: Mapping[str, int], width: int, most: int = 2) -> Text:
    """Names with their counts, the most frequent first, in at most `most` lines."""
    if not counts:
        return Text(f"{title}: none", LABEL)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    parts = [Text.assemble((f"{title}:", LABEL))]
    parts += [Text.assemble(cut(name.replace("_", " "), 36), " ", (f"{count:,}", "bold")) for name, count in ordered]
    return flow(parts, width, most)
