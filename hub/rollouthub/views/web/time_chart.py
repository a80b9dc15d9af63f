"""When a rollout's stages, model calls and tool calls began, and how long they took: a row for each, on one axis."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import seconds, turn_number
from rollouthub.text import plain_name
from rollouthub.views.markup import Markup, join, tag

MOST_ROWS = 200
"""Model and tool calls that are shown."""
_WIDTH, _LEAST = 1000.0, 2.0


@dataclass(frozen=True, slots=True)
class TimedCall:
    """Something that took time."""

    name: str
    kind: str
    """`stage`, `model`, `tool` or `broke`: the colour."""
    began: float
    """Seconds since the rollout started."""
    seconds: float
    turn: int | None = None


def spans_of(rollout: Rollout) -> Iterator[TimedCall]:
    """The stages around the agent's turn, in their order, and its model and tool calls by their times."""
    timings = rollout.timings
    calls = [
        span
        for turn in rollout.turns
        for span in (
            TimedCall(f"{turn_number(turn.index)}: model", "model", turn.started, turn.seconds, turn.index),
            *(
                TimedCall(
                    plain_name(call.name), "broke" if call.is_error else "tool", call.started, call.seconds, turn.index
                )
                for call in turn.tool_calls
            ),
        )
    ]
    yield from _stages((("setup", timings.setup),), 0.0)  # before that it waited, which is no part of its time
    yield from sorted(calls, key=lambda span: span.began)
    ends = max([timings.setup + timings.agent, *(span.began + span.seconds for span in calls)])
    yield from _stages((("verify", timings.verify), ("close", timings.close)), ends)


def _stages(stages: Sequence[tuple[str, float]], began: float) -> Iterator[TimedCall]:
    for name, took in stages:
        if took > 0:
            yield TimedCall(name, "stage", began, took)
        began += took


def time_chart(rollout: Rollout) -> Markup | None:
    """The chart, folded; None for a record without times."""
    spans = list(islice(spans_of(rollout), MOST_ROWS + 1))
    end = max((span.began + span.seconds for span in spans), default=0.0)
    if not end > 0 or min(span.began for span in spans) < 0:
        return None
    rows = [_row(span, _WIDTH / end) for span in spans[:MOST_ROWS]]
    head = tag("tr", [tag("th", title, scope="col") for title in ("what", "began", "took", "when")])
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="times")
    more = tag("p", "Further calls are not shown.", class_="soft small") if len(spans) > MOST_ROWS else None
    summary = tag("summary", "Times", tag("span", f" {seconds(end)} in all", class_="soft"))
    return tag(
        "details", summary, tag("div", table, class_="wide", tabindex="0", role="group", aria_label="Times"), more
    )


def _row(span: TimedCall, scale: float) -> Markup:
    width = max(_LEAST, span.seconds * scale)
    left = min(span.began * scale, _WIDTH - width)
    bar = tag("rect", x=left, y="0", width=width, height="10", class_=f"time {span.kind}")
    drawn = tag("svg", bar, viewBox=f"0 0 {_WIDTH:g} 10", preserveAspectRatio="none", aria_hidden="true")
    name = span.name if span.turn is None else tag("a", span.name, href=f"#turn-{span.turn + 1}")
    broke = tag("span", " ! error", class_="t-red") if span.kind == "broke" else None
    cells = (join(name, broke), seconds(span.began), seconds(span.seconds))
    return tag("tr", [tag("td", cell, class_="n" if at else None) for at, cell in enumerate(cells)], tag("td", drawn))
