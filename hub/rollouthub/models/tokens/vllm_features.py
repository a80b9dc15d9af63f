"""The features of pictures and sounds, which a vLLM server renders and accepts again beside token ids.

As `MultiModalFeatures` of vLLM 0.32 has them (vllm/entrypoints/scale_out/token_in_token_out/protocol.py).
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from rollouthub.errors import ModelError
from rollouthub.event_loop import MOST_VALUES, is_crowded
from rollouthub.messages import Message, media_of
from rollouthub.models.direct.answer_bounds import BadAnswer, check_length
from rollouthub.models.tokens.placed_media import PlacedMedia

_NONE = msgspec.Raw(b"null")
_LEAST_BYTES_A_VALUE = 64


class _Range(Struct, gc=False):
    offset: int
    length: int


class _FeaturesOutline(Struct):
    mm_hashes: msgspec.Raw = _NONE
    mm_placeholders: msgspec.Raw = _NONE
    kwargs_data: msgspec.Raw = _NONE


class _RenderedOutline(Struct):
    token_ids: msgspec.Raw = _NONE
    features: _FeaturesOutline | None = None


class _Features(Struct):
    mm_hashes: dict[str, list[str]]
    mm_placeholders: dict[str, list[_Range]]
    kwargs_data: dict[str, list[msgspec.Raw]] | None = None


class Rendered(Struct):
    """A rendered conversation."""

    token_ids: list[int]
    features: _Features | None = None


_outline = msgspec.json.Decoder(_RenderedOutline).decode
_rendered = msgspec.json.Decoder(Rendered).decode


def read_rendered(answer: bytes) -> Rendered:
    """A rendered conversation in a server's answer.

    Raises:
        BadAnswer: it has more values than a conversation's rendering has.
        msgspec.DecodeError: it is no rendered conversation.
    """
    outline = _outline(answer)
    check_length(bytes(outline.token_ids).count(b","))
    if (features := outline.features) is not None:
        inputs = bytes(features.kwargs_data)
        # Inputs are long texts; a list of small values has a comma for each.
        is_long = inputs.count(b",") > max(MOST_VALUES, len(inputs) // _LEAST_BYTES_A_VALUE)
        if is_long or is_crowded(bytes(features.mm_hashes)) or is_crowded(bytes(features.mm_placeholders)):
            raise BadAnswer("its features hold more values than the hub reads")
    return _rendered(answer)


def placed_media(rendered: Rendered, messages: Sequence[Message], server: str) -> tuple[PlacedMedia, ...]:
    """The media of a rendered conversation, in the order of its ids.

    Raises:
        ModelError: a medium is missing, or a request cannot say where its tokens are.
    """
    features, found = rendered.features, list[PlacedMedia]()
    if features is not None:
        inputs = features.kwargs_data or {}
        for modality, keys in features.mm_hashes.items():
            ranges = features.mm_placeholders.get(modality, ())
            given = inputs.get(modality) or [_NONE] * len(keys)
            for key, each, raw in zip(keys, ranges, given, strict=True):
                content = b"" if raw == _NONE else bytes(raw)
                found.append(PlacedMedia(modality, key, each.offset, each.length, content))
    shown = len(media_of(messages))
    if len(found) != shown:
        raise ModelError(
            f"{server}: the conversation shows {shown} pictures, sounds or files, and the server's rendering has "
            f"{len(found)}; take --lane direct, which sends them as they are",
            retryable=False,
        )
    for each in found:
        _check_place(each, rendered.token_ids, server)
    return tuple(sorted(found, key=lambda each: each.offset))


def _check_place(each: PlacedMedia, ids: Sequence[int], server: str) -> None:
    """Refuse a medium with other tokens between its own.

    vLLM's request gives the place as offset and length alone, so its engine would treat these tokens as the medium's.
    """
    tokens = set(ids[each.offset : each.offset + each.length])
    if len(tokens) != 1 or each.offset + each.length > len(ids):
        raise ModelError(
            f"{server}: this model writes other tokens between those of one {each.modality}, and vLLM's "
            "/inference/v1/generate takes a place without them (PlaceholderRangeInfo of vLLM 0.32 lacks is_embed, "
            "vllm/entrypoints/scale_out/token_in_token_out/protocol.py); take --lane direct",
            retryable=False,
        )


def written_features(placed: Sequence[PlacedMedia], server: str) -> dict[str, Any]:
    """The field `features` of a request for an answer.

    Raises:
        ModelError: the server gave no features of a medium, so that it would look for it in its cache.
    """
    hashes, ranges, inputs = dict[str, list[str]](), dict[str, list[_Range]](), dict[str, list[msgspec.Raw]]()
    for each in placed:
        if not each.features:
            raise ModelError(
                f"{server}: the server rendered a conversation's {each.modality} without its features; "
                "take --lane direct",
                retryable=False,
            )
        hashes.setdefault(each.modality, []).append(each.key)
        ranges.setdefault(each.modality, []).append(_Range(each.offset, each.length))
        inputs.setdefault(each.modality, []).append(msgspec.Raw(each.features))
    return {"mm_hashes": hashes, "mm_placeholders": ranges, "kwargs_data": inputs}
