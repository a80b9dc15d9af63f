"""How rollouts ended: one bar of shares with a legend, and counts of stop reasons and faults."""

from collections.abc import Mapping, Sequence
from math import floor

from rich.text import Text

from rollouthub.rollout import OutcomeKind
from rollouthub.statistics.amounts import share
from rollouthub.views.terminal.outcome_styles import ENDINGS, NOT_PASSED, PASSED, Ending
from rollouthub.views.terminal.text_fit import LABEL, cut, flow

_FILLS = {PASSED: "█", NOT_PASSED: "▒", ENDINGS["scored"]: "█"}


def outcome_bar(kinds: Mapping[OutcomeKind, int], width: int, *, judged: int = 0, passed: int = 0) -> Text:
    """A bar divided among kinds of outcome by their share; each kind that occurred gets at least one cell.

    Of those scored, `judged` are the ones with a verdict, and `passed` those of them that passed.
    """
    endings = _endings(kinds, judged, passed)
    counts = [count for _, count in endings]
    if not any(counts):
        return Text("─" * width, LABEL)
    bar = Text()
    for place, cells in sorted(_cells(counts, width).items()):
        ending = endings[place][0]
        bar.append(_fill(ending) * cells, ending.style)
    return bar


def _endings(kinds: Mapping[OutcomeKind, int], judged: int, passed: int) -> list[tuple[Ending, int]]:
    """How rollouts ended, in display order, with their numbers: those scored by their verdicts, if there are any."""
    broken = [(ending, kinds.get(kind, 0)) for kind, ending in ENDINGS.items() if kind != "scored"]
    if not judged:
        return [(ENDINGS["scored"], kinds.get("scored", 0)), *broken]
    bare = kinds.get("scored", 0) - judged
    unjudged = [(ENDINGS["scored"], bare)] if bare > 0 else []
    return [(PASSED, passed), (NOT_PASSED, judged - passed), *unjudged, *broken]


def _fill(ending: Ending) -> str:
    return _FILLS.get(ending, ending.mark)


def _cells(counts: Sequence[int], width: int) -> dict[int, int]:
    """The cells of each place with a number."""
    total = sum(counts)
    exact = {place: count * width / total for place, count in enumerate(counts) if count}
    cells = {place: max(1, floor(share)) for place, share in exact.items()}
    while sum(cells.values()) > width:  # those that were given a cell they had no share of
        cells[max(cells, key=lambda place: cells[place])] -= 1
    for place in sorted(exact, key=lambda place: cells[place] - exact[place]):
        if sum(cells.values()) < width:
            cells[place] += 1
    cells[max(cells, key=lambda place: cells[place])] += width - sum(cells.values())
    return cells


def outcome_legend(
    kinds: Mapping[OutcomeKind, int],
    width: int,
    most: int = 3,
    *,
    zeros: bool = False,
    judged: int = 0,
    passed: int = 0,
) -> Text:
    """The legend of the bar: mark, kind, count and share; `zeros` includes kinds that did not occur."""
    total = sum(kinds.values())
    parts: list[Text] = []
    for ending, count in _endings(kinds, judged, passed):
        if not count and not zeros:
            continue
        word = ending.word if count == 1 else ending.plural
        part = Text.assemble((_fill(ending), ending.style), f" {word} ", (f"{count:,}", "bold" if count else LABEL))
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
