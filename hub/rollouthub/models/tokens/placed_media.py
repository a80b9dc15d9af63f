"""`PlacedMedia`: a picture or sound at its place in a prompt of token ids."""

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class PlacedMedia:
    """One picture or sound, as the server that rendered it takes it back beside token ids."""

    modality: str
    """`image` or `audio`."""
    key: str
    """The server's name of it in its caches."""
    offset: int
    """The index of its first token in the prompt."""
    length: int
    """How many tokens of the prompt stand for it."""
    features: bytes
    """The model's inputs for it, as the JSON that the server wrote; empty if they were not asked for."""


def place_media(
    placed: Sequence[PlacedMedia], held: Sequence[int], *, known: int, rendered: list[int], prompt: list[int]
) -> tuple[PlacedMedia, ...] | None:
    """The media of a rendered conversation at their places in a prompt that continues stored ids.

    The first `known` of the `rendered` ids are the stored part, whose media begin at the offsets `held` in the stored
    ids. None if a medium has other tokens in the prompt than in the rendering.
    """
    if sum(each.offset < known for each in placed) != len(held):
        return None
    shift = len(prompt) - len(rendered)
    moved: list[PlacedMedia] = []
    for place, each in enumerate(placed):
        offset = held[place] if place < len(held) else each.offset + shift
        tokens = rendered[each.offset : each.offset + each.length]
        if prompt[offset : offset + each.length] != tokens:
            return None
        moved.append(replace(each, offset=offset))
    return tuple(moved)
