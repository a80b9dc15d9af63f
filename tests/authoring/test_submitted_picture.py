"""The picture that was handed in: found in words and in parts, and nothing else taken for one."""

import base64

import pytest

from rollouthub import Message, Submission, Text, picture
from rollouthub.authoring.submitted_picture import submitted_picture
from rollouthub.messages import assistant, user

PNG, OTHER = b"\x89PNG\r\n\x1a\n one", b"\x89PNG\r\n\x1a\n two"
SOUND = b"RIFF\x04\0\0\0WAVEdata"


def url(content: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


@pytest.mark.parametrize("said", ["{0}", "![it]({0})", '<img src="{0}">', "First {1}, then {0}\nDone.", "`{0}`"])
def test_the_last_data_url_of_an_answer_counts(said: str) -> None:
    assert submitted_picture(Submission(answer=said.format(url(PNG), url(OTHER, "jpeg")))) == PNG


def test_a_picture_of_the_last_message_counts_where_no_words_hold_one() -> None:
    shown = Message(role="assistant", content=(picture(OTHER), Text(text="and"), picture(PNG), picture(SOUND)))
    theirs = Message(role="user", content=(picture(OTHER),))
    assert submitted_picture(Submission(transcript=(theirs, shown, user("thanks")))) == PNG
    assert submitted_picture(Submission(transcript=(shown, assistant(url(OTHER))))) == OTHER
    assert submitted_picture(Submission(transcript=(shown, assistant("no")))) is None
    assert submitted_picture(Submission(transcript=(shown,), answer="none")) is None
    assert submitted_picture(Submission(transcript=(theirs,))) is None
    assert submitted_picture(Submission()) is None


@pytest.mark.parametrize(
    "said", ["data:image/png,xyz", "data:image/png;base64,!", "data:image/" + "x" * 99 + ";base64,"]
)
def test_what_is_no_base64_is_an_error(said: str) -> None:
    with pytest.raises(ValueError, match="base64"):
        submitted_picture(Submission(answer=said))
