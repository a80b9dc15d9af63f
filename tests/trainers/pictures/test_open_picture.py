"""Pictures of tools and tasks, as trainers open them: decoded in bounds, and by no other program."""

import time

import pytest

from rollouthub.errors import ModelError
from rollouthub.trainers.pictures.prompt_pictures import open_picture
from tests.models.test_media_tokens import drawn

PNG = drawn(8, 8)
HOSTILE = {
    "a bomb": (PNG[:16] + (60_000).to_bytes(4) * 2 + PNG[24:], "is no picture|larger than"),
    "just too large": (drawn(8192, 4097), "larger than the 33554432"),
    "postscript": (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(%pipe%touch /tmp/owned) (w) file\n",
        "is no picture",
    ),
    "svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "is no picture"),
    "torn": (drawn(64, 64)[:60], "is no picture"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_picture_or_has_no_end_is_refused_at_once(name: str) -> None:
    content, said = HOSTILE[name]
    started = time.process_time()
    with pytest.raises(ModelError, match=f"a picture cannot be opened: .*({said})") as caught:
        open_picture(content)
    assert not caught.value.retryable
    assert time.process_time() - started < 2


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP"])
def test_common_formats_are_opened_in_colours(kind: str) -> None:
    opened = open_picture(drawn(32, 16, kind))
    assert (opened.size, opened.mode) == ((32, 16), "RGB")
