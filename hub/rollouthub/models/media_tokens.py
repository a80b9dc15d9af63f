"""How many tokens of a model's context a picture takes, from its size in pixels, where the model's rule is known."""

import math
import re
from collections.abc import Callable

from rollouthub.messages import Media, media_type

MEDIA_TOKENS = 2048
"""Tokens assumed for a picture or sound without a known rule: those of a one-megapixel picture in common models."""

Rule = Callable[[int, int], int]
"""A function from width and height in pixels to tokens."""


def media_tokens(model: str, part: Media, content: bytes | None) -> int:
    """About how many tokens a picture or sound takes of a model, given the model's name as in `-m`."""
    known = known_media_tokens(model, part, content)
    return MEDIA_TOKENS if known is None else known


def known_media_tokens(model: str, part: Media, content: bytes | None) -> int | None:
    """The tokens of a picture by its model's rule; None if no rule is known for the model or the format."""
    rule = next((rule for pattern, rule in _RULES if pattern.search(model)), None)
    sides = None if rule is None or content is None else picture_sides(content)
    return None if rule is None or sides is None or not part.mime_type.startswith("image/") else rule(*sides)


def picture_sides(content: bytes) -> tuple[int, int] | None:
    """Width and height in pixels of a PNG, GIF, JPEG or WebP; None if the header has no valid size."""
    match media_type(content):
        case "image/png" if len(content) >= 24:
            sides = int.from_bytes(content[16:20]), int.from_bytes(content[20:24])
        case "image/gif" if len(content) >= 10:
            sides = int.from_bytes(content[6:8], "little"), int.from_bytes(content[8:10], "little")
        case "image/jpeg":
            sides = _jpeg_sides(content)
        case "image/webp":
            sides = _webp_sides(content)
        case _:
            return None
    return sides if sides is not None and min(sides) > 0 else None


def _jpeg_sides(content: bytes) -> tuple[int, int] | None:
    """Width and height from the frame header, the first of the segments SOF0 to SOF15 (T.81, B.2.2)."""
    place = 2
    while place + 9 <= len(content) and content[place] == 0xFF:
        mark = content[place + 1]
        if 0xC0 <= mark <= 0xCF and mark not in (0xC4, 0xC8, 0xCC):
            return int.from_bytes(content[place + 7 : place + 9]), int.from_bytes(content[place + 5 : place + 7])
        place += 2 + max(2, int.from_bytes(content[place + 2 : place + 4]))
    return None


def _webp_sides(content: bytes) -> tuple[int, int] | None:
    """Width and height from the first chunk (RFC 9649, 2.5 to 2.7)."""
    if len(content) < 30:
        return None
    match content[12:16]:
        case b"VP8X":
            return 1 + int.from_bytes(content[24:27], "little"), 1 + int.from_bytes(content[27:30], "little")
        case b"VP8L":
            bits = int.from_bytes(content[21:25], "little")
            return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
        case b"VP8 ":
            wide, high = int.from_bytes(content[26:28], "little"), int.from_bytes(content[28:30], "little")
            return wide & 0x3FFF, high & 0x3FFF
        case _:
            return None


def _patches(factor: int, least_pixels: int, most_pixels: int) -> Rule:
    """Qwen's rule: sides rounded to patches, the picture scaled into pixel bounds (`smart_resize`), plus two marker
    tokens.
    """

    def rule(width: int, height: int) -> int:
        wide, high = max(1, round(width / factor)), max(1, round(height / factor))
        pixels = wide * high * factor**2
        if pixels > most_pixels:
            shrink = math.sqrt(width * height / most_pixels)
            wide = max(1, math.floor(width / shrink / factor))
            high = max(1, math.floor(height / shrink / factor))
        elif pixels < least_pixels:
            grow = math.sqrt(least_pixels / (width * height))
            wide, high = math.ceil(width * grow / factor), math.ceil(height * grow / factor)
        # A picture of one pixel by millions is outside the bounds even at one patch in width; processors refuse it.
        return min(wide * high, most_pixels // factor**2) + 2

    return rule


def _tiles(base: int, tile: int) -> Rule:
    """OpenAI's rule for full detail: fitted into 2048 by 2048, the shorter side to 768, then counted in tiles of
    512.
    """

    def rule(width: int, height: int) -> int:
        fit = min(1.0, 2048 / max(width, height))
        fit *= min(1.0, 768 / (min(width, height) * fit))
        return base + tile * math.ceil(width * fit / 512) * math.ceil(height * fit / 512)

    return rule


def _claude(width: int, height: int) -> int:
    """Anthropic's rule: one token for 750 pixels, the longer side at most 1568 pixels, at most 1600 tokens."""
    fit = min(1.0, 1568 / max(width, height))
    return min(1600, math.ceil(width * fit * height * fit / 750))


_RULES: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (re.compile(r"qwen-?2([._]5)?[-_]?vl", re.IGNORECASE), _patches(28, 56 * 56, 16_384 * 28 * 28)),
    (re.compile(r"qwen-?3[-_]?vl", re.IGNORECASE), _patches(32, 256 * 256, 4096 * 4096)),
    (re.compile(r"gpt-4o-mini", re.IGNORECASE), _tiles(2833, 5667)),
    (re.compile(r"gpt-4o|gpt-4\.1(?!-mini|-nano)|gpt-4\.5", re.IGNORECASE), _tiles(85, 170)),
    (re.compile(r"claude", re.IGNORECASE), _claude),
)
"""Patterns of model names with their rules, with the bounds that the publishers state."""
