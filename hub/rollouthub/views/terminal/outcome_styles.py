"""How the endings of rollouts are shown: a mark, a word and a colour, so that no meaning is in the colour alone."""

from dataclasses import dataclass

from rollouthub.rollout import OutcomeKind


@dataclass(frozen=True, slots=True)
class Ending:
    """How one kind of ending is shown."""

    mark: str
    """One cell wide."""
    word: str
    plural: str
    style: str
    """Rich's; an ANSI colour, so that every theme has its own."""


ENDINGS: dict[OutcomeKind, Ending] = {
    "scored": Ending("●", "scored", "scored", "green"),
    "agent_failure": Ending("✗", "agent failure", "agent failures", "yellow"),
    "infrastructure_fault": Ending("!", "infrastructure fault", "infrastructure faults", "red"),
    "verifier_fault": Ending("?", "verifier fault", "verifier faults", "magenta"),
    "cancelled": Ending("○", "cancelled", "cancelled", "bright_black"),
}
"""In the order in which they are shown."""
