"""A scorer of pictures without a model: compares colours, brightness and shape with the words of the prompt.

Deterministic and cheap, for tests and for trying out a training set-up. It does not recognise what a picture shows.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_COLOURS = {
    "red": (200, 30, 30),
    "green": (40, 160, 60),
    "blue": (40, 70, 200),
    "yellow": (230, 210, 50),
    "orange": (230, 130, 30),
    "purple": (130, 50, 160),
    "pink": (240, 140, 180),
    "brown": (120, 75, 40),
    "black": (15, 15, 15),
    "white": (240, 240, 240),
    "grey": (128, 128, 128),
}
_LIGHT = {"dark": 0.15, "night": 0.15, "dim": 0.3, "bright": 0.8, "sunny": 0.8, "light": 0.75}
_SHAPE = {"square": 1.0, "landscape": 1.5, "wide": 1.78, "portrait": 1 / 1.5, "tall": 1 / 1.78}
_SIDE = 32
"""Width and height, in pixels, to which a picture is reduced before it is compared."""


def plain_look(
    images: Sequence[Any], prompts: Sequence[str], metadata: Sequence[Mapping[str, Any]]
) -> dict[str, list[float | None]]:
    """Score pictures; each component is from 0 to 1, or None if the prompt has no word for it.

    `reward` is the mean of the components that apply; if none applies, the picture is unscored. `metadata` is ignored.
    """
    parts: dict[str, list[float | None]] = {"reward": [], "colour": [], "light": [], "shape": []}
    for image, prompt in zip(images, prompts, strict=True):
        words = re.findall(r"[a-z]+", prompt.lower().replace("gray", "grey"))
        pixels = _pixels(image)
        found = {
            "colour": _colour(pixels, [word for word in words if word in _COLOURS]),
            "light": _light(pixels, words),
            "shape": _shape(image.size, words),
        }
        said = [value for value in found.values() if value is not None]
        parts["reward"].append(math.fsum(said) / len(said) if said else None)
        for name, value in found.items():
            parts[name].append(value)
    return parts


def _pixels(image: Any) -> list[tuple[int, int, int]]:
    raw = image.convert("RGB").resize((_SIDE, _SIDE), resample=0).tobytes()
    return [(raw[place], raw[place + 1], raw[place + 2]) for place in range(0, len(raw), 3)]


def _colour(pixels: Sequence[tuple[int, int, int]], named: Sequence[str]) -> float | None:
    """The share of pixels whose nearest colour is one that the prompt names."""
    if not named:
        return None
    nearest: dict[tuple[int, int, int], str] = {}
    count = 0
    for pixel in pixels:
        if pixel not in nearest:
            nearest[pixel] = min(_COLOURS, key=lambda name: math.dist(_COLOURS[name], pixel))
        count += nearest[pixel] in named
    return count / len(pixels)


def _light(pixels: Sequence[tuple[int, int, int]], words: Sequence[str]) -> float | None:
    asked = [_LIGHT[word] for word in words if word in _LIGHT]
    if not asked:
        return None
    mean = sum(0.2126 * red + 0.7152 * green + 0.0722 * blue for red, green, blue in pixels) / (255 * len(pixels))
    return 1.0 - abs(mean - asked[0])


def _shape(size: tuple[int, int], words: Sequence[str]) -> float | None:
    asked = [_SHAPE[word] for word in words if word in _SHAPE]
    if not asked:
        return None
    return max(0.0, 1.0 - abs(math.log(size[0] / size[1] / asked[0])))
