"""Media: named by their bytes, and the bytes stay in this process."""

import os
import pickle
from pathlib import Path

import pytest

from rollouthub import Media, Message, ModelError, TaskError, Text, picture
from rollouthub.messages import digest_of, holding, media_bytes, media_of, media_type

PNG = b"\x89PNG\r\n\x1a\n and so on"


def shown(part: Media) -> Message:
    return Message(role="user", content=(Text(text="Look:"), part))


def test_a_picture_is_named_by_its_bytes_and_typed_by_their_beginning() -> None:
    part = picture(PNG)
    assert (part.digest, part.mime_type, part.read()) == (digest_of(PNG), "image/png", PNG)


@pytest.mark.parametrize(
    ("content", "mime_type"),
    [
        (b"\xff\xd8\xff\xe0 JFIF", "image/jpeg"),
        (b"GIF89a...", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav"),
        (b"RIFF\x00\x00\x00\x00AVI LIST", None),
        (b"%PDF-1.7", "application/pdf"),
        (b"words", None),
    ],
)
def test_types_are_told_by_what_a_file_begins_with(content: bytes, mime_type: str | None) -> None:
    assert media_type(content) == mime_type


@pytest.mark.parametrize("content", [b"", b"words"])
def test_what_is_no_picture_is_refused_in_words(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"a picture has 1 to|no picture or sound of a known format"):
        picture(content)


def test_a_pipe_in_a_pictures_place_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "picture.png"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="no regular file"):
        picture(pipe)


def test_bytes_are_never_serialised() -> None:
    message = shown(picture(PNG))
    text = message.model_dump_json()
    assert "content" not in text.replace('"content":[', "")
    (again,) = media_of([Message.model_validate_json(text)])
    assert again.read() is None


def test_two_that_name_the_same_are_equal_with_and_without_bytes() -> None:
    part = picture(PNG)
    bare = Media(digest=part.digest, mime_type="image/png")
    assert shown(part) == shown(bare)
    assert hash(part) == hash(bare)
    assert part != Media(digest=part.digest, mime_type="image/gif")


def test_a_pickled_picture_takes_its_bytes_along() -> None:
    assert pickle.loads(pickle.dumps(picture(PNG))).read() == PNG


def test_bytes_given_by_digest_count_before_a_parts_own_and_none_is_an_error() -> None:
    part = picture(PNG)
    bare = Media(digest=part.digest, mime_type="image/png")
    assert media_bytes(part, {}) == PNG
    assert media_bytes(bare, {part.digest: PNG}) == PNG
    (held,) = media_of(holding([shown(bare)], {part.digest: PNG}))
    assert held.read() == PNG
    with pytest.raises(ModelError, match="bytes are not at hand"):
        media_bytes(bare, {})


def test_a_file_that_is_gone_is_the_tasks_fault(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    file.write_bytes(PNG)
    part = picture(file)
    file.unlink()
    with pytest.raises(TaskError, match=r"a\.png' cannot be read") as caught:
        part.read()
    assert not caught.value.retryable
