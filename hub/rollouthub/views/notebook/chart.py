"""A chart that notebooks display: the report's SVG, with its style inside, and its figures as text for those who
cannot see it.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.statistics import Estimate, GroupSummary
from rollouthub.views.markup import Markup, tag
from rollouthub.views.report.report_figures import distribution
from rollouthub.views.report.style import CHARTS
from rollouthub.views.report.svg_charts import Curve, CurvePoint, curves, histogram

_COLOURS = (
    "--ink: currentColor; --soft: currentColor; --line: color-mix(in srgb, currentColor 22%, transparent); "
    "--card: transparent; --c0: #4a80e8; --c1: #d9730d; --good: #2a9d5c; --bad: #d0453a; --infra: #8a94a8;"
)
"""Colours that can be told from light and from dark pages, as a notebook's theme is not the system's."""
_STYLE = f".rollouthub-chart {{ {_COLOURS} max-width: 34rem; {CHARTS} }}"
"""Nested, so that it styles nothing else of the notebook."""


class Chart:
    """A chart; the last value of a cell is shown. `svg` is a picture to keep."""

    def __init__(self, picture: Markup, words: str, names: Sequence[str] = ()) -> None:
        self._picture, self._words, self._names = picture, words, names

    @property
    def svg(self) -> str:
        """The chart as a file: SVG that carries its style and needs nothing else."""
        opened = self._picture.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
        style = tag("style", Markup(f"svg {{ {_COLOURS} }} {CHARTS}"))
        return opened.replace("</title>", f"</title>{style}", 1)

    def __repr__(self) -> str:
        return f"<Chart: {self._words}>"

    def _repr_html_(self) -> str:
        key = [tag("li", tag("i", "■ ", class_=f"key{place}"), name) for place, name in enumerate(self._names)]
        colours = Markup("".join(f".key{place} {{ color: var(--c{place}); }} " for place in range(len(self._names))))
        style = Markup(_STYLE.replace("max-width", f"{colours} max-width", 1))
        keys = tag("ul", key, style="list-style:none;padding:0;display:flex;gap:1rem") if key else None
        return tag("div", tag("style", style), self._picture, keys, class_="rollouthub-chart")


def chart_of(found: GroupSummary, rewards: Iterable[float], what: Literal["pass_at_k", "rewards"] | None) -> Chart:
    """The chart of a selection's figures.

    Raises:
        UnknownNameError: there is no such chart.
        ConfigError: there is nothing to draw.
    """
    if what not in (None, "pass_at_k", "rewards"):
        raise UnknownNameError("chart", str(what), ("pass_at_k", "rewards"))
    if what is None:
        what = "pass_at_k" if len(found.at_k) > 1 else "rewards"
    if not found.scored:
        raise ConfigError("there is nothing to draw: no rollout is scored, and unscored is not 0")
    if what == "rewards":
        bars = distribution(rewards)
        return Chart(histogram("Rewards of scored rollouts", bars), f"rewards of {found.scored:,} scored rollouts")
    lines = [
        Curve("pass@k", _points((at.k, at.pass_at_k) for at in found.at_k)),
        Curve("avg@k", _points((at.k, at.avg_at_k) for at in found.at_k)),
    ]
    lines = [line for line in lines if line.points]
    names = [line.name for line in lines]
    words = "; ".join(f"{line.name} {line.points[-1].value:.3f} at k={line.points[-1].k}" for line in lines)
    return Chart(curves(" and ".join(names), lines), words, names)


def _points(found: Iterable[tuple[int, Estimate | None]]) -> tuple[CurvePoint, ...]:
    return tuple(
        CurvePoint(k, each.value, each.low, each.high)
        for k, each in found
        if each is not None and each.value is not None
    )
