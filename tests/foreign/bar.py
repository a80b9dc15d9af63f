"""`Bar`: what the comparison of one format with its own project's code found."""

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Bar:
    """The figures of one format, as the first table of docs/foreign.md has them."""

    format: str
    what: str
    """What was compared, in a few words."""
    listed: int = 0
    """Tasks that the imports list."""
    compared: int = 0
    """Results that both sides were asked for."""
    equal: int = 0
    unmatched: int = 0
    """Results that could not be compared, as one side has none."""
    own_ms: float | None = None
    """CPU milliseconds of a tool call by the project's own code; None where its own runner was not measured."""
    hub_ms: float | None = None
    """CPU milliseconds of a tool call through the hub, all processes."""
    differences: list[str] = field(default_factory=list[str])
    """Each result that is not the same, and each comparison that failed; the script ends with 1 if there is one."""
    table: str = ""
    """The format's own table."""

    def row(self) -> str:
        """The line of the first table."""
        counts = f"{self.listed:,} | {self.compared:,} | {self.equal:,} | {self.unmatched:,}"
        return f"| {self.format} | {self.what} | {counts} | {_ms(self.own_ms)} | {_ms(self.hub_ms)} |"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def say(text: str) -> None:
    """Tell how far it is."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


class Missing(Exception):
    """What a comparison needs is not at hand; the message says what to name, and how."""


def checkout_of(variable: str, what: str) -> Path:
    """The folder that a variable names.

    Raises:
        Missing: it names none.
    """
    named = os.environ.get(variable, "")
    if not Path(named).is_dir() or not named:
        raise Missing(f"it needs a checkout of {what}: {variable}=FOLDER")
    return Path(named)
