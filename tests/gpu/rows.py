"""`Row`: one figure that a part found, or why it found none."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["passed", "missed", "measured", "not tried", "failed"]
"""`passed` and `missed` say whether a figure reached its bar, `measured` that it has none; `not tried` has a reason,
and `failed` an error.
"""


class Missing(Exception):
    """What a measurement needs is not here; the message says what."""


class PartError(Exception):
    """A process of a part failed; the message has its last words."""


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    part: str
    name: str
    verdict: Verdict
    value: float | None = None
    unit: str = ""
    bar: str = ""
    """What the value is to be, such as `≥ 97`."""
    note: str = ""
    """Why it was not tried, how it failed, or under which conditions it was measured."""

    def as_json(self) -> Mapping[str, Any]:
        """The row as `--json` writes it."""
        return asdict(self)

    @property
    def shown(self) -> str:
        """The value with its unit; a dash where there is none."""
        return "–" if self.value is None else f"{_digits(self.value)} {self.unit}".strip()


def _digits(value: float) -> str:
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 1e-3 else f"{value:.1e}"


def measured(part: str, name: str, value: float, unit: str = "", *, note: str = "") -> Row:
    """A figure without a bar."""
    return Row(part, name, "measured", value, unit, note=note)


def at_least(part: str, name: str, value: float, bar: float, unit: str = "", *, note: str = "") -> Row:
    """A figure that is to reach its bar."""
    return Row(part, name, "passed" if value >= bar else "missed", value, unit, f"≥ {_digits(bar)}", note)


def at_most(part: str, name: str, value: float, bar: float, unit: str = "", *, note: str = "") -> Row:
    """A figure that is not to exceed its bar."""
    return Row(part, name, "passed" if value <= bar else "missed", value, unit, f"≤ {_digits(bar)}", note)
