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
    "agent_failure": Ending("⊘", "agent failure", "agent failures", "yellow"),
    "infrastructure_fault": Ending("!", "infrastructure fault", "infrastructure faults", "red"),
    "verifier_fault": Ending("?", "verifier fault", "verifier faults", "magenta"),
    "cancelled": Ending("○", "cancelled", "cancelled", "bright_black"),
}
"""Kind of outcome → display, in display order."""
PASSED = Ending("✓", "passed", "passed", "green")
NOT_PASSED = Ending("✗", "not passed", "not passed", "yellow")
PARTIAL = Ending("◐", "partly solved", "partly solved", "yellow")
_HEAT = ("yellow", "bright_yellow", "", "bright_green", "green")
"""Styles of rewards 0, below a half, a half, above, and 1."""


def verdict_of(kind: OutcomeKind, passed: bool | None, reward: float | None) -> Ending:
    """How one rollout is displayed: a scored one by its verdict, any other by its kind of outcome."""
    if kind != "scored" or (passed is None and (reward is None or not 0 < reward < 1)):
        return ENDINGS[kind]
    if passed:
        return PASSED
    return PARTIAL if reward is not None and 0 < reward < 1 else NOT_PASSED


def heat(reward: float) -> str:
    """The style of a reward from 0 to 1, in five steps; plain for any other."""
    if not 0 <= reward <= 1:
        return ""
    return _HEAT[0] if reward == 0 else _HEAT[4] if reward == 1 else _HEAT[2 + (reward > 0.5) - (reward < 0.5)]
