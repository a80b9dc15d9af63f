"""The stages of attempts in flight."""

from collections import Counter
from collections.abc import Iterable
from typing import get_args

from rich.text import Text

from rollouthub.store.run_facts import LiveState, State
from rollouthub.views.terminal.text_fit import LABEL, flow

STATES: dict[State, tuple[str, str]] = {
    "queued": ("·", "bright_black"),
    "setup": ("◔", "blue"),
    "model": ("◆", "cyan"),
    "tool": ("▣", "magenta"),
    "verify": ("✓", "green"),
    "close": ("◌", "bright_black"),
}
"""A mark and a colour for each state, in the order in which attempts go through them."""
assert tuple(STATES) == get_args(State)


def flight_line(
    live: Iterable[LiveState], width: int, most: int = 2, *, total: int | None = None, zeros: bool = False
) -> Text:
    """A line with the number of attempts in flight, in all and by state; `zeros` includes states without any.

    `total` is the number that the live run reports: the store holds no states of very short attempts.
    """
    counts = Counter(state.state for state in live)
    total = max(total or 0, counts.total())
    if not total and not zeros:
        return Text("nothing is in flight", LABEL)
    parts = [Text.assemble((f"{total:,}", "bold"), (" in flight", LABEL))]
    unknown = total - counts.total()
    for state, (mark, style) in STATES.items():
        if counts[state] or zeros:
            parts.append(
                Text.assemble((mark, style), f" {state} ", (f"{counts[state]:,}", "bold" if counts[state] else LABEL))
            )
    if unknown:
        parts.insert(1, Text.assemble("stage not known ", (f"{unknown:,}", "bold")))
    return flow(parts, width, most)
