"""A run's status as a mark, a word and a colour."""

from dataclasses import dataclass

from rich.text import Text


@dataclass(frozen=True, slots=True)
class StatusStyle:
    """How one status is displayed."""

    mark: str
    """A symbol one cell wide."""
    word: str
    meaning: str
    style: str


STANDINGS: dict[str, StatusStyle] = {
    "running": StatusStyle("►", "running", "it plays now", "cyan"),
    "paused": StatusStyle("‖", "paused", "it starts nothing new until told to go on", "yellow"),
    "finishing": StatusStyle("▷", "finishing", "it starts nothing new; what is in flight goes on", "yellow"),
    "stopping": StatusStyle("▷", "stopping", "it ends what is in flight, too", "yellow"),
    "finished": StatusStyle("✓", "finished", "everything planned was played", "green"),
    "interrupted": StatusStyle("■", "interrupted", "it was ended early; hub run --resume goes on", "yellow"),
    "failed": StatusStyle("✗", "failed", "it broke; hub run --resume goes on", "red"),
    "dead": StatusStyle("†", "died", "it was killed; what is committed is kept, hub run --resume goes on", "red"),
}
"""Status → display, for the states that the store records and those that a live hub reports."""


def standing(status: str, state: str | None = None) -> StatusStyle:
    """The display of a run's status; a live hub's state takes precedence over the store's "running"."""
    name = state if status == "running" and state in STANDINGS else status
    return STANDINGS.get(name) or STANDINGS["failed"]


def status_text(status: str, state: str | None = None) -> Text:
    """The status's mark and word, coloured."""
    shown = standing(status, state)
    return Text(f"{shown.mark} {shown.word}", f"bold {shown.style}")
