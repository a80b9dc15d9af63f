"""Messages, and what an agent left: they cross every boundary unchanged."""

import pytest
from hypothesis import given
from pydantic import BaseModel, ValidationError

from rollouthub import Media, Message, Submission, Text
from rollouthub.messages import assistant, system, user
from tests.strategies import messages, submissions


def reads_back(value: BaseModel) -> bool:
    """Whether a model is the same after a trip through JSON and through plain values."""
    model = type(value)
    from_json = model.model_validate_json(value.model_dump_json())
    from_values = model.model_validate(value.model_dump())
    return from_json == value == from_values


@given(messages)
def test_a_message_reads_back_from_json(message: Message) -> None:
    assert reads_back(message)


@given(submissions)
def test_a_submission_reads_back_from_json(submission: Submission) -> None:
    assert reads_back(submission)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Message.model_validate({"role": "user", "content": "hi", "colour": "red"})


def test_a_message_is_immutable() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        user("hi").content = "bye"  # pyright: ignore[reportAttributeAccessIssue]  # the refusal is the claim


def test_text_is_the_words_without_the_media() -> None:
    picture = Media(digest="sha256:" + "0" * 64, mime_type="image/png")
    message = Message(role="user", content=(Text(text="look"), picture, Text(text="there")))
    assert message.text == "look\nthere"


def test_the_submitted_answer_is_final_even_when_empty() -> None:
    assert Submission(answer="", transcript=(assistant("41"),)).final == ""


def test_without_an_answer_the_last_words_of_the_agent_are_final() -> None:
    transcript = (system("be brief"), user("6 * 7?"), assistant("41"), assistant("42"), user("thanks"))
    assert Submission(transcript=transcript).final == "42"


def test_an_agent_that_said_nothing_left_empty_words() -> None:
    assert Submission(transcript=(user("6 * 7?"),)).final == ""
