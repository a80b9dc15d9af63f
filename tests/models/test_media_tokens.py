"""Tokens of pictures: by the model's own rule where it is known, else by a stated guess."""

import io
from typing import Any

import pytest
from PIL import Image

from rollouthub import Message, ModelRequest, picture
from rollouthub.models.config import ModelConfig
from rollouthub.models.media_tokens import MEDIA_TOKENS, media_tokens, picture_sides
from rollouthub.models.router.call_estimate import Estimator


def drawn(width: int, height: int, kind: str = "PNG", **more: Any) -> bytes:
    file = io.BytesIO()
    mode, colour = ("RGB", "red") if width * height < 2**20 else ("1", 1)  # a large one takes seconds in colours
    Image.new(mode, (width, height), colour).save(file, kind, **more)
    return file.getvalue()


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True}),
        ("JPEG", {"exif": b"Exif\0\0" + b"\xff" * 300}),
        ("WEBP", {}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"exif": b"Exif\0\0"}),
    ],
)
def test_sides_are_read_from_a_files_beginning(kind: str, more: dict[str, Any]) -> None:
    assert picture_sides(drawn(321, 45, kind, **more)) == (321, 45)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "JPEG", "WEBP"])
def test_of_a_torn_file_nothing_is_told_or_the_truth(kind: str) -> None:
    whole = drawn(32, 16, kind)
    for length in range(0, len(whole), 3):
        assert picture_sides(whole[:length]) in (None, (32, 16))


def test_a_jpeg_of_endless_marks_is_given_up_at_once() -> None:
    assert picture_sides(b"\xff\xd8\xff" + b"\xff" * 2_000_000) is None
    assert picture_sides(b"\xff\xd8" + b"\xff\xe0\x00\x00" * 500_000) is None


@pytest.mark.parametrize(
    ("model", "sides", "tokens"),
    [
        ("hosted_vllm/Qwen/Qwen2.5-VL-7B-Instruct", (224, 224), 8 * 8 + 2),
        ("hosted_vllm/qwen2_5_vl", (1920, 1080), 69 * 39 + 2),
        ("hosted_vllm/Qwen2-VL-2B", (28, 28), 2 * 2 + 2),
        ("hosted_vllm/Qwen3-VL-4B", (320, 320), 10 * 10 + 2),
        ("openai/gpt-4o", (1024, 1024), 765),
        ("openai/gpt-4o", (2048, 4096), 1105),
        ("openai/gpt-4o-mini", (512, 512), 2833 + 5667),
        ("anthropic/claude-sonnet-4", (1092, 1092), 1590),
        ("anthropic/claude-sonnet-4", (4000, 4000), 1600),
        ("hosted_vllm/another", (1024, 1024), MEDIA_TOKENS),
    ],
)
def test_pictures_take_what_their_models_say(model: str, sides: tuple[int, int], tokens: int) -> None:
    content = drawn(*sides)
    assert media_tokens(model, picture(content), content) == tokens


def test_bounds_scale_a_picture_without_end() -> None:
    content = drawn(9000, 9000)
    assert 16_000 < media_tokens("hosted_vllm/qwen2.5-vl", picture(content), content) <= 16_386


def test_sides_that_a_header_makes_up_take_no_more_than_the_largest_picture() -> None:
    for width, height in ((2**32 - 1, 2**32 - 1), (1, 2**32 - 1), (2**32 - 1, 1)):
        content = drawn(8, 8)
        content = content[:16] + width.to_bytes(4) + height.to_bytes(4) + content[24:]
        for model in ("hosted_vllm/Qwen2.5-VL", "hosted_vllm/Qwen3-VL", "openai/gpt-4o", "anthropic/claude-4"):
            assert 0 <= media_tokens(model, picture(content), content) <= 16_386


def test_a_call_is_expected_to_take_what_its_pictures_take() -> None:
    content = drawn(224, 224)
    part = picture(content)
    ours = Estimator(ModelConfig(name="hosted_vllm/Qwen2.5-VL-3B"))
    shown = Message(role="user", content=(part, part))
    for _ in range(2):
        expected = ours.expect(ModelRequest([shown], media={part.digest: content}))
        assert expected.media_tokens == 2 * 66
