"""Why something cannot be done: what is said in each situation."""

from dataclasses import replace

import pytest

from rollouthub.live.steering.availability import Action, Situation, why_not

PLAYING = Situation("running", None, True, "running", 4, "g1-0", "model", None, True, False)
NOT_YET = "no hub has answered for it yet, and it is asked again every 2 s; it may play elsewhere, or have no socket"
ENDED = replace(PLAYING, status="finished", is_steered=False, state=None, concurrency=None, in_flight=None)


@pytest.mark.parametrize(
    "action", ["cancel", "interrupt", "message", "pause", "more", "fewer", "concurrency", "copy", "shell"]
)
def test_in_a_run_that_plays_its_rollouts_and_itself_can_be_steered(action: Action) -> None:
    assert why_not(action, PLAYING) is None


@pytest.mark.parametrize(
    ("action", "now", "reason"),
    [
        ("cancel", ENDED, "the run is over: nothing of it plays"),
        ("cancel", replace(ENDED, status="dead"), "the run is dead (its process is gone): nothing of it plays"),
        ("shell", replace(PLAYING, is_steered=False), NOT_YET),
        (
            "pause",
            replace(PLAYING, is_steered=False, host="far\x1b[31m"),
            "it plays on far; its hub can be reached only there",
        ),
        ("message", replace(PLAYING, rollout_id=None), "there is no rollout here"),
        ("message", replace(PLAYING, in_flight="setup"), "g1-0 is not set up yet: it has no agent to message"),
        ("interrupt", replace(PLAYING, in_flight="verify"), "the agent's time is over: g1-0 is being scored"),
        ("interrupt", replace(PLAYING, in_flight=None, ending="agent_failure"), "g1-0 is over: agent failure"),
        ("cancel", replace(PLAYING, in_flight=None), "g1-0 is not in flight any more"),
        ("retry", PLAYING, "g1-0 is still in flight; only what broke or was cancelled is played again"),
        (
            "retry",
            replace(PLAYING, in_flight=None, ending="scored"),
            "g1-0 has a result, scored; only what broke or was cancelled is played again",
        ),
        (
            "retry",
            replace(PLAYING, in_flight=None, ending="cancelled", counts=False),
            "a later attempt of g1-0 took the place of this one",
        ),
        ("pause", replace(PLAYING, state="finishing"), "the run is finishing: it starts nothing new any more"),
        ("fewer", replace(PLAYING, concurrency=1), "one at a time is the fewest; p pauses the run"),
        (
            "more",
            replace(PLAYING, concurrency=None),
            "the run says no concurrency of its own: others decide how many play at a time",
        ),
        ("rescore", PLAYING, "the run is still on; score it anew when it has ended"),
        (
            "shell",
            replace(PLAYING, is_web=True),
            "not in a browser: it would need this machine's terminal; use `hub watch` there",
        ),
        (
            "artifacts",
            replace(ENDED, ending="scored", is_web=True),
            "not in a browser: it would need this machine's terminal; use `hub watch` there",
        ),
    ],
)
def test_what_cannot_be_done_says_why(action: Action, now: Situation, reason: str) -> None:
    assert why_not(action, now) == reason


def test_what_ended_unscored_is_tried_again_and_an_ended_run_is_scored_anew() -> None:
    assert why_not("retry", replace(PLAYING, in_flight=None, ending="infrastructure_fault")) is None
    assert why_not("rescore", ENDED) is None
    assert why_not("artifacts", replace(ENDED, ending="agent_failure")) is None


def test_a_run_has_a_log_to_open_wherever_one_is_in_it() -> None:
    assert why_not("artifacts", PLAYING) is None
    assert why_not("artifacts", replace(ENDED, rollout_id=None)) is None
