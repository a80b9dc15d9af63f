"""Mark, word and colour for each kind of outcome, so that the colour alone carries no meaning."""

from dataclasses import dataclass

from rollouthub.rollout import OutcomeKind


@dataclass(frozen=True, slots=True)
class Ending:
    """How one kind of outcome is displayed."""

    mark: str
    """A symbol one cell wide."""
    word: str
    plural: str
    style: str
    """A Rich style with an ANSI colour, which the terminal's theme defines."""


ENDINGS: dict[OutcomeKind, Ending] = {
    "scored": Ending("●", "scored", "scored", "green"),
    "agent_failure": Ending("✗", "agent failure", "agent failures", "yellow"),
    "infrastructure_fault": Ending("!", "infrastructure fault", "infrastructure faults", "red"),
    "verifier_fault": Ending("?", "verifier fault", "verifier faults", "magenta"),
    "cancelled": Ending("○", "cancelled", "cancelled", "bright_black"),
}
"""Kind of outcome → display, in display order."""
