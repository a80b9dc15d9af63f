"""The conversation of a rollout in flight."""

from rollouthub.live.control.live_views import RolloutDetails, TurnView
from rollouthub_tui.widgets.rollout.live_transcript import LiveTranscript


def told(transcript: LiveTranscript, *turns: TurnView) -> list[str]:
    shown = RolloutDetails.model_construct(turns=turns, turns_left_out=0)
    return [section.title(60, False).plain for section in transcript.sections(shown)]


def test_before_the_first_answer_it_says_that_there_is_none_yet() -> None:
    transcript = LiveTranscript()
    assert told(transcript) == ["nothing was said yet; a turn is shown once the model has answered"]
    turn = TurnView.model_construct(
        index=0,
        agent="agent",
        parent_turn=None,
        messages=(),
        calls=(),
        asked=(),
        output_tokens=0,
        seconds=0.0,
        finish_reason=None,
    )
    assert len(told(transcript, turn)) == 1
    assert not told(transcript, turn)[0].startswith("nothing")
