"""What `hub run` counts of itself: every sample once, by the attempt that counts in the store."""

import pytest

from envhub import Outcome
from envhub.cli.played import Played
from tests.store.records import record

FAILED, BROKEN, CANCELLED, SCORED = (
    Outcome.AGENT_FAILED,
    Outcome.MODEL_FAILED,
    Outcome.CANCELLED,
    Outcome.SCORED,
)


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        ((BROKEN, BROKEN, SCORED), SCORED),
        ((BROKEN, CANCELLED), CANCELLED),
        ((CANCELLED, FAILED), FAILED),
        ((BROKEN, FAILED), FAILED),
        ((FAILED,), FAILED),
    ],
)
def test_a_sample_that_is_played_again_counts_once(outcomes: tuple[Outcome, ...], counts: Outcome) -> None:
    played = Played()
    for number, outcome in enumerate(outcomes):
        played.add([record("g-0", number, outcome)])
    assert {outcome: count for outcome, count in played.means.outcomes.items() if count} == {counts: 1}
    assert (played.means.finished, played.retries) == (1, len(outcomes) - 1)
