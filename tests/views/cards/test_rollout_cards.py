"""The cards of a rollout: each thing that happened is a card of its kind, where it happened."""

from pydantic import JsonValue

from rollouthub import Message, Outcome, Score
from rollouthub.rollout import Intervention
from rollouthub.score import Component, ModelCall
from rollouthub.views.cards.blocks import CodeBlock, PlainBlock, ProseBlock
from rollouthub.views.cards.card import JudgeCard, PersonCard, SpeechCard, ThinkingCard, ToolCard
from rollouthub.views.cards.rollout_cards import RolloutCards
from tests.store.records import record
from tests.tui.episodes import call, episode, turn


def test_a_turn_is_its_prompt_thinking_speech_and_calls_in_order() -> None:
    cards = RolloutCards(episode("code", 0, 1)).turn(0)
    assert [card.kind for card in cards.cards] == ["speech", "thinking", "speech", "tool"]
    asked, thought, said, called = cards.cards
    assert isinstance(asked, SpeechCard)
    assert (asked.role, asked.is_prompt, [block.kind for block in asked.blocks]) == ("user", True, ["prose", "media"])
    assert isinstance(thought, ThinkingCard)
    assert thought.characters == len(thought.text.text)
    assert isinstance(said, SpeechCard)
    assert (said.who, said.is_prompt) == ("agent", False)
    assert isinstance(called, ToolCard)
    assert (called.name, called.status, called.size) == ("write_file", "ok", 15)
    assert [block.kind for block in called.arguments] == ["fields", "code"]
    assert [block.kind for block in called.result] == ["plain", "media"]
    assert (cards.number, cards.index, cards.seat) == ("turn 1", 0, "")
    assert "reward +0.1" in cards.facts


def test_what_a_tool_gave_stands_at_its_call_only() -> None:
    called = turn(0, "", call(0, "look", {}, "seen"), user="go")
    result = Message(role="tool", content="seen", tool_call_id="call0")
    other = Message(role="tool", content="from elsewhere", tool_call_id="other")
    cards = RolloutCards(record("a-0", turns=(called, turn(1, "done", messages=(result, other))))).turn(1).cards
    assert [card.blocks for card in cards if isinstance(card, SpeechCard)] == [
        (PlainBlock("from elsewhere"),),
        (ProseBlock("done"),),
    ]


def test_a_call_that_was_not_run_says_so() -> None:
    asked = turn(0, "", call(0, "look", {}, ""))
    (card,) = RolloutCards(record("a-0", turns=(asked.model_copy(update={"tool_calls": ()}),))).turn(0).cards
    assert isinstance(card, ToolCard)
    assert (card.name, card.status, card.size, card.result) == ("look", "not run", None, ())


def test_a_message_of_a_person_is_told_from_the_users() -> None:
    told = Intervention(at=2.5, seat="agent", text="use the other file")
    messages = (Message(role="user", content="begin"), Message(role="user", content=told.text))
    cards = RolloutCards(record("a-0", turns=(turn(0, "ok", messages=messages),), told=(told,))).turn(0).cards
    assert [card.kind for card in cards] == ["speech", "person", "speech"]
    assert cards[1] == PersonCard(PlainBlock("use the other file"), "agent", 2.5)


def test_a_model_call_of_the_environment_stands_where_its_words_were_said_and_a_judge_where_it_judged() -> None:
    heard = Message(role="assistant", content="Where is my order?")
    user = ModelCall(role="user", model="m", messages=(Message(role="system", content="be a user"),), response=heard)
    lost = ModelCall(role="user", model="m", messages=(), response=Message(role="assistant", content="never said"))
    judge = ModelCall(model="j", messages=(), response=None, error="429")
    credit: dict[str, JsonValue] = {"credit": {"turns": {"1": "well put"}, "team": "fine"}}
    made = record(
        "a-0",
        turns=(turn(0, "Hello.", user="hi"), turn(1, "Here.", user="Where is my order?")),
        role_calls=(user, lost),
        score=Score(reward=1.0, judge_calls=(judge,), metadata=credit),
    )
    cards = RolloutCards(made)
    assert not any(isinstance(card, JudgeCard) for card in cards.turn(0).cards)
    first, last = (card for card in cards.turn(1).cards if isinstance(card, JudgeCard))
    assert (first.who, first.words.text, first.asked[0].blocks) == ("user", heard.text, (ProseBlock("be a user"),))
    assert (last.who, last.words.text) == ("judge", "well put")
    said = [(judge.who, judge.words.text, judge.error) for judge in cards.verdict().judges]
    assert said == [("user", "never said", ""), ("judge", "", "429"), ("judge, of the whole", "fine", "")]


def test_the_verdict_says_why() -> None:
    score = Score(reward=0.25, passed=False, feedback="**no**", components={"tests": Component(value=0.5, weight=0.5)})
    verdict = RolloutCards(record("a-0", score=score, answer="x = 1\ny = 2")).verdict()
    assert (verdict.mark, verdict.word, verdict.worth) == ("◐", "partly solved", "reward 0.250")
    assert verdict.feedback == ProseBlock("**no**")
    assert [(part.name, part.value, part.weight) for part in verdict.components] == [("tests", 0.5, 0.5)]
    assert verdict.answer == CodeBlock("x = 1\ny = 2", "python", "code")


def test_what_is_unscored_has_no_reward() -> None:
    verdict = RolloutCards(episode("arithmetic", 1, 0, outcome=Outcome.SANDBOX_FAILED)).verdict()
    assert verdict.worth == "no reward: unscored, which is not 0"
    assert "out of memory" in verdict.faults[0].message
    assert verdict.why_not == "it has no score"
