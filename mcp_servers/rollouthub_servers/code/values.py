"""Values as they pass between the tests and the code under test: builtins alone, as tagged JSON.

The other side is never trusted with more than bytes. Not pickle, which runs code; and not Python literals, which know
no nan, parse slowly, and crash the parser where they are nested deeply. Runs inside the sandbox, too: the standard
library alone, Python 3.9 on.
"""

import json
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO, cast

MAX_MESSAGE = 8 << 20
"""Bytes of one message."""
MAX_ITEMS = 1_000_000
"""Most items taken from an iterator, which may not end."""
LENGTH = 4
"""Bytes before a message that say how long it is."""
_SMALL = 1 << 63


class Unsendable(Exception):
    """A value that is no builtin."""


class TooLong(Exception):
    """A message beyond `MAX_MESSAGE`."""


def encode(value: Any) -> Any:
    """A value as JSON's types: a list for a list, else an object of one key, the type.

    Raises:
        Unsendable: it is, or holds, something else than builtins.
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
    """The value again; of an iterator, one over the same items.

    Raises:
        ValueError: it is nothing that `encode` makes.
        TypeError: a set or a key that cannot be one.
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
    """A message as it travels.

    Raises:
        TooLong: it is over `MAX_MESSAGE`.
    """
    data = json.dumps(message).encode()
    if len(data) > MAX_MESSAGE:
        raise TooLong
    return len(data).to_bytes(LENGTH, "big") + data


def receive(stream: BinaryIO) -> dict[str, Any]:
    """The next message.

    Raises:
        EOFError: the other side is gone.
        TooLong: it is over `MAX_MESSAGE`.
        ValueError: it is no JSON object.
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
