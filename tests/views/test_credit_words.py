"""What judges say of turns and seats is found in any score, and shown harmless and short."""

from typing import Any

from rollouthub import Score
from rollouthub.views.credit_words import MOST_CHARACTERS, CreditWords

SAID: dict[str, Any] = {"team": "a fair price", "turns": {"0": "too low", "1": ""}, "seats": {"buyer": "gave in"}}


def words_of(metadata: dict[str, Any]) -> CreditWords:
    return CreditWords(Score(reward=0.5, metadata=metadata))


def test_words_are_found_by_turn_and_seat() -> None:
    words = words_of({"credit": SAID})
    assert words.of_team == ["a fair price"]
    assert [words.of_turn(index) for index in range(3)] == [["too low"], [], []]
    assert (words.of_seat("buyer"), words.of_seat("seller")) == (["gave in"], [])


def test_judges_that_are_parts_of_a_reward_are_named() -> None:
    inner = {"credit": {"credit": SAID}, "style": {"credit": {"turns": {"0": "curt"}}}}
    words = words_of({"critics": inner})
    assert words.of_turn(0) == ["credit: too low", "style: curt"]
    assert words.of_team == ["credit: a fair price"]


def test_words_of_a_stranger_are_harmless_and_bounded() -> None:
    attack = "\x1b]0;title\x07gave\n\u202ein " + "x" * 10**6
    crowd = {f"judge {place}\x1b[2J": {"credit": {"turns": {"0": attack}}} for place in range(1000)}
    (first, *others) = words_of(crowd).of_turn(0)
    assert first.startswith("judge 0: gave in xxx")
    assert first.isprintable()
    assert len(first) <= MOST_CHARACTERS + len("judge 0: ")
    assert len(others) < 8


def test_metadata_of_another_form_says_nothing() -> None:
    odd: list[dict[str, Any]] = [
        {"credit": 7},
        {"credit": "much"},
        {"credit": {"turns": ["a"], "seats": 3, "team": None}},
        {"credit": {}},
    ]
    for metadata in (*odd, {"turns": {"0": "no judge's"}}):
        words = words_of(metadata)
        assert (words.of_team, words.of_turn(0), words.of_seat("buyer")) == ([], [], [])
    assert CreditWords(None).of_turn(0) == []
