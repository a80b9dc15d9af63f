"""Gymnasium's spaces as JSON: schemas of actions, actions from JSON, observations as words and pictures."""

import base64
import importlib
import json
import zlib
from typing import Any, cast

from rollouthub_servers.foreign.serving import Refused
from rollouthub_servers.step_api.world import Shown, Unplayable, text

numpy: Any = importlib.import_module("numpy")  # of the foreign environment
spaces: Any = importlib.import_module("gymnasium.spaces")
_LEAST_PIXELS = 32
"""Smaller arrays of bytes are grids, not pictures."""


def schema_of(space: Any) -> dict[str, Any]:
    """The JSON schema of an action.

    Raises:
        Unplayable: JSON has no form for it.
    """
    if isinstance(space, spaces.Discrete):
        return {"type": "integer", "minimum": int(space.start), "maximum": int(space.start + space.n - 1)}
    if isinstance(space, spaces.MultiBinary | spaces.MultiDiscrete | spaces.Box):
        return _array_schema(space)
    if isinstance(space, spaces.Text):
        known = {"description": f"Of the characters {''.join(sorted(space.character_set))!r}."}
        return {"type": "string", "minLength": space.min_length, "maxLength": space.max_length, **known}
    if isinstance(space, spaces.Tuple):
        parts = [schema_of(part) for part in space.spaces]
        return {"type": "array", "prefixItems": parts, "minItems": len(parts), "maxItems": len(parts)}
    if isinstance(space, spaces.Dict):
        parts = {name: schema_of(part) for name, part in space.spaces.items()}
        return {"type": "object", "properties": parts, "required": list(parts), "additionalProperties": False}
    raise Unplayable(f"no tool can take an action of the space {type(space).__name__}")


def _array_schema(space: Any) -> dict[str, Any]:
    if isinstance(space, spaces.Box):
        kind = "integer" if numpy.issubdtype(space.dtype, numpy.integer) else "number"
        low, high = space.low.min(), space.high.max()
    elif isinstance(space, spaces.MultiDiscrete):
        kind, low, high = "integer", space.start.min(), (space.start + space.nvec - 1).max()
    else:
        kind, low, high = "integer", 0, 1
    schema: dict[str, Any] = {"type": kind}
    if numpy.isfinite(low):
        schema["minimum"] = _number(low)
    if numpy.isfinite(high):
        schema["maximum"] = _number(high)
    for length in reversed(space.shape):
        schema = {"type": "array", "items": schema, "minItems": int(length), "maxItems": int(length)}
    return schema


def action_of(space: Any, value: Any) -> Any:
    """An action from JSON.

    Raises:
        Refused: it is none of the space's.
    """
    try:
        action = _from_json(space, value)
    except (TypeError, ValueError, KeyError, OverflowError):
        action = None
    if action is None or not space.contains(action):
        raise Refused(f"that is no action of {space}"[:500])
    return action


def _from_json(space: Any, value: Any) -> Any:
    if isinstance(space, spaces.Discrete):
        return space.dtype.type(value)
    if isinstance(space, spaces.Tuple):
        return tuple(_from_json(part, each) for part, each in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Dict):
        return {name: _from_json(part, value[name]) for name, part in space.spaces.items()}
    return value if isinstance(space, spaces.Text) else numpy.array(value, dtype=space.dtype).reshape(space.shape)


def shown(observation: Any) -> Shown:
    """An observation as it is: words as words, arrays of colours as pictures, all else as JSON."""
    if isinstance(observation, str):
        return text(observation)
    if is_picture(observation):
        return [picture(observation)]
    pictures: Shown = []
    if isinstance(observation, dict):
        parts = cast("dict[str, Any]", observation)
        pictures = [picture(each) for each in parts.values() if is_picture(each)]
        observation = {name: each for name, each in parts.items() if not is_picture(each)}
    return [*text(f"Observation: {json.dumps(_plain(observation))}"), *pictures]


def is_picture(value: Any) -> bool:
    """Whether an array is a picture: rows of pixels of red, green and blue."""
    is_colours = isinstance(value, numpy.ndarray) and value.dtype == numpy.uint8 and value.ndim == 3
    return is_colours and value.shape[2] == 3 and min(value.shape[:2]) >= _LEAST_PIXELS


def picture(pixels: Any) -> dict[str, str]:
    """An array of colours as a PNG file."""
    height, width, _ = pixels.shape
    header = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    lines = b"".join(b"\0" + row.tobytes() for row in numpy.ascontiguousarray(pixels))
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines, 6)), (b"IEND", b""))
    return {"png": base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in chunks)).decode()}


def _chunk(name: bytes, content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + name + content + zlib.crc32(name + content).to_bytes(4, "big")


def _plain(value: Any) -> Any:
    """Numbers as short as they can be read back."""
    if isinstance(value, numpy.ndarray):
        return [_plain(each) for each in value]
    if isinstance(value, numpy.generic):
        return _number(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in cast("dict[Any, Any]", value).items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in cast("list[Any]", value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise Unplayable(f"an observation holds a {type(value).__name__}, which cannot be shown")


def _number(value: Any) -> Any:
    if isinstance(value, numpy.bool_):
        return bool(value)
    return int(value) if isinstance(value, numpy.integer) else float(str(value))
