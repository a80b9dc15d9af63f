"""The cards of a rollout in flight, as its hub tells of it."""

from rollouthub.live.control.live_views import CallView, SaidView, TurnView
from rollouthub.views.cards.blocks import FieldsBlock, PlainBlock, ProseBlock
from rollouthub.views.cards.card import SpeechCard, ToolCard
from rollouthub.views.cards.card_text import CardText
from rollouthub.views.cards.live_cards import live_cards

SHOWN = CardText()


def turn(index: int, *said: tuple[str, str], calls: tuple[CallView, ...] = ()) -> TurnView:
    return TurnView(
        index=index,
        parent_turn=index - 1 if index else None,
        agent="agent",
        finish_reason=None,
        output_tokens=1,
        seconds=1.0,
        asked=tuple(call.name for call in calls),
        calls=calls,
        messages=tuple(SaidView(role=role, text=text) for role, text in said),
    )


def test_what_a_tool_gave_is_shown_once_at_its_call() -> None:
    asked = CallView(name="add", outcome="ok", seconds=1.0, arguments='{"a": 1}', result='{"sum": 3}')
    first = turn(0, ("user", "add"), ("assistant", "I add"), calls=(asked,))
    second = turn(1, ("tool", '{"sum": 3}'), ("tool", "another"), ("assistant", "3"))
    prompt, said, call = live_cards(first, None, SHOWN)
    assert isinstance(prompt, SpeechCard) and (prompt.role, prompt.who) == ("user", "user")
    assert said == SpeechCard("assistant", "agent", (ProseBlock("I add"),))
    assert isinstance(call, ToolCard) and isinstance(call.result[0], FieldsBlock)
    assert live_cards(second, first, SHOWN) == [
        SpeechCard("tool", "tool result", (PlainBlock("another"),)),
        SpeechCard("assistant", "agent", (ProseBlock("3"),)),
    ]


def test_what_the_user_says_again_of_a_result_is_not_left_out() -> None:
    asked = CallView(name="add", outcome="error", seconds=1.0, result="3")
    first, second = turn(0, ("user", "add"), calls=(asked,)), turn(1, ("user", "3"), ("critic", "hm"))
    again, other = live_cards(second, first, SHOWN)
    assert again == SpeechCard("user", "user", (ProseBlock("3"),))
    assert other == SpeechCard("user", "critic", (ProseBlock("hm"),))
    (_, call) = live_cards(first, None, SHOWN)
    assert isinstance(call, ToolCard) and call.status == "error"
