"""Pictures of a run: shown if they are what they say, told in a line if not."""

import io
import struct
import zlib
from pathlib import Path

import pytest
from PIL import Image

from rollouthub.store.media import keep_media
from rollouthub_tui.widgets.rollout.document import Medium
from rollouthub_tui.widgets.rollout.pictures import MOST_BYTES, load_picture
from rollouthub_tui.widgets.rollout.terminal_graphics import pixel_widget, prepare_graphics
from tests.tui.episodes import digest_of, picture


def encoded(kind: str) -> bytes:
    """A small picture in some format."""
    buffer = io.BytesIO()
    Image.new("RGB", (30, 20), "red").save(buffer, kind)
    return buffer.getvalue()


def bomb() -> bytes:
    """A picture of 30,000 by 30,000 pixels in a few bytes."""
    header = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    chunk = struct.pack(">I", len(header)) + b"IHDR" + header
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", zlib.crc32(b"IHDR" + header)) + picture()[33:]


def load(folder: Path, content: bytes, mime_type: str) -> "Image.Image | str":
    """What becomes of a file."""
    digest = digest_of(content)
    keep_media(folder / "media", {digest: content})
    return load_picture(folder, Medium(digest, mime_type))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_a_picture_that_is_what_it_says_is_loaded(tmp_path: Path, kind: str) -> None:
    loaded = load(tmp_path, encoded(kind), f"image/{kind.lower()}")
    assert isinstance(loaded, Image.Image)
    assert (loaded.size, loaded.mode) == ((30, 20), "RGB")


def test_a_large_picture_is_made_smaller(tmp_path: Path) -> None:
    loaded = load(tmp_path, picture(40, 4000), "image/png")
    assert isinstance(loaded, Image.Image)
    assert max(loaded.size) == 1600


@pytest.mark.parametrize(
    ("content", "mime_type", "why"),
    [
        (b"just words\x1b]0;owned\x07", "image/png", "is no picture (text)"),
        (b"", "image/png", "is no picture"),
        (encoded("JPEG"), "image/png", "claims to be image/png, but is image/jpeg"),
        (encoded("PNG"), "text/html\x1b[2J", "claims to be text/html, but is image/png"),
        (encoded("PNG")[:50], "image/png", "it is broken"),
        (picture(48, 400)[:120], "image/png", "it is broken"),
        (bomb(), "image/png", "cannot be shown"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml", "is no picture"),
    ],
)
def test_what_is_no_picture_says_so_in_a_line(tmp_path: Path, content: bytes, mime_type: str, why: str) -> None:
    told = load(tmp_path, content, mime_type)
    assert isinstance(told, str)
    assert why in told
    assert told.isprintable()


def test_what_is_missing_outside_or_enormous_is_not_opened(tmp_path: Path) -> None:
    missing = load_picture(tmp_path, Medium(digest_of(b"x"), "image/png"))
    assert isinstance(missing, str)
    assert "missing" in missing
    outside = load_picture(tmp_path, Medium("sha256:../../etc/passwd\x1b[2J", "image/png"))
    assert isinstance(outside, str)
    assert "names no file" in outside
    digest = digest_of(b"large")
    (tmp_path / "media").mkdir()
    with (tmp_path / "media" / digest.removeprefix("sha256:")).open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    large = load_picture(tmp_path, Medium(digest, "image/png"))
    assert isinstance(large, str)
    assert "too many" in large


def test_a_terminal_that_is_none_is_not_asked_and_pictures_are_cells() -> None:
    prepare_graphics({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"})
    assert pixel_widget(Image.new("RGB", (2, 2))) is None
