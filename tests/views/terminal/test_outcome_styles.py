"""How one rollout's verdict is shown: by mark, word and colour."""

import pytest

from rollouthub.rollout import OutcomeKind
from rollouthub.views.terminal.outcome_styles import heat, verdict_of


@pytest.mark.parametrize(
    ("kind", "passed", "reward", "mark"),
    [
        ("scored", True, 1.0, "✓"),
        ("scored", False, 0.0, "✗"),
        ("scored", False, 0.4, "◐"),
        ("scored", None, 0.4, "◐"),
        ("scored", None, 0.0, "●"),
        ("scored", None, 2.5, "●"),
        ("infrastructure_fault", None, None, "!"),
        ("verifier_fault", None, None, "?"),
    ],
)
def test_a_mark_tells_the_verdict(kind: OutcomeKind, passed: bool | None, reward: float | None, mark: str) -> None:
    assert verdict_of(kind, passed, reward).mark == mark


def test_rewards_have_five_steps_of_colour_and_none_beyond_a_share() -> None:
    assert len({heat(reward) for reward in (0.0, 0.2, 0.5, 0.8, 1.0)}) == 5
    assert heat(-1.0) == heat(7.0) == ""
