"""Encodes values passed between the tests and the code under test: builtin types only, as tagged JSON.

Neither side needs to trust the other's bytes. Pickle would run code; Python literals do not know nan, parse slowly, and
crash the parser if deeply nested. Also runs inside the sandbox: standard library only, Python 3.9 or later.
"""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, cast

MAX_MESSAGE = 8 << 20
"""Most bytes of one message."""
MAX_ITEMS = 1_000_000
"""Most items taken from an iterator, which may not end."""
LENGTH = 4
"""Number of bytes before a message that hold its length."""
_SMALL = 1 << 63


class Unsendable(Exception):
    """A value that is not of a builtin type."""


class TooLong(Exception):
    """A message longer than `MAX_MESSAGE`."""


def encode(value: Any) -> Any:
    """Encode a value as JSON types: a list as a list, other types as an object whose one key is the type.

    Raises:
        Unsendable: the value is or contains something other than builtin types.
    """
    if value is None or isinstance(value, (bool, str, float)):
        return value
    if isinstance(value, int):
        return int(value) if -_SMALL < value < _SMALL else {"int": hex(value)}
    if isinstance(value, list):
        return [encode(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {"dict": [[encode(key), encode(item)] for key, item in cast("dict[Any, Any]", value).items()]}
    for kind in (tuple, set, frozenset):
        if isinstance(value, kind):
            return {kind.__name__: [encode(item) for item in cast(Any, value)]}
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, complex):
        return {"complex": [value.real, value.imag]}
    if isinstance(value, range):
        return {"range": [encode(number) for number in (value.start, value.stop, value.step)]}
    if isinstance(value, Iterator):
        items = list(islice(cast("Iterator[Any]", value), MAX_ITEMS + 1))
        if len(items) > MAX_ITEMS:
            raise Unsendable("an iterator of over a million items")
        return {"iterator": [encode(item) for item in items]}
    raise Unsendable(f"a {type(value).__name__}")


def decode(coded: Any) -> Any:
    """Decode a value; an iterator becomes an iterator over the same items.

    Raises:
        ValueError: it was not made by `encode`.
        TypeError: a set member or a key is not hashable.
    """
    if isinstance(coded, list):
        return [decode(item) for item in cast("list[Any]", coded)]
    if not isinstance(coded, dict):
        return coded
    ((kind, inner),) = cast("dict[str, Any]", coded).items()
    if kind == "int":
        return int(inner, 16)
    if kind == "dict":
        return {decode(key): decode(item) for key, item in inner}
    if kind == "bytes":
        return bytes.fromhex(inner)
    if kind == "complex":
        return complex(*inner)
    if kind == "range":
        return range(*decode(inner))
    make = {"tuple": tuple, "set": set, "frozenset": frozenset, "iterator": iter}.get(kind)
    if make is None:
        raise ValueError(f"{kind!r} is no type that is known here")
    return make(decode(inner))


def pack(message: dict[str, Any]) -> bytes:
    """Encode a message as bytes, with its length first.

    Raises:
        TooLong: the message is longer than `MAX_MESSAGE`.
    """
    data = json.dumps(message).encode()
    if len(data) > MAX_MESSAGE:
        raise TooLong
    return len(data).to_bytes(LENGTH, "big") + data


def receive(stream: BinaryIO) -> dict[str, Any]:
    """Read the next message.

    Raises:
        EOFError: the other side has ended.
        TooLong: the message is longer than `MAX_MESSAGE`.
        ValueError: it is not a JSON object.
        RecursionError: it is nested too deeply.
    """
    size = int.from_bytes(_exactly(stream, LENGTH), "big")
    if size > MAX_MESSAGE:
        raise TooLong
    message = json.loads(_exactly(stream, size))
    if not isinstance(message, dict):
        raise ValueError("a message must be an object")
    return cast("dict[str, Any]", message)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
