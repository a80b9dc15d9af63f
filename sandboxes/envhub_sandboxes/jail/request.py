"""What the hub and a keeper say to each other: one message each way, a JSON header and two byte strings."""

import json
import socket
from typing import Any

_LENGTH = 4


def pack(header: dict[str, Any], first: bytes, second: bytes) -> bytes:
    """A message as bytes."""
    head = json.dumps({**header, "sizes": [len(first), len(second)]}).encode()
    return len(head).to_bytes(_LENGTH, "big") + head + first + second


def receive(control: socket.socket) -> tuple[dict[str, Any], bytes, bytes]:
    """The next message; blocks.

    Raises:
        EOFError: the other side is gone.
    """
    head = json.loads(_exactly(control, int.from_bytes(_exactly(control, _LENGTH), "big")))
    first, second = head.pop("sizes")
    return head, _exactly(control, first), _exactly(control, second)


def unpack(message: bytes) -> tuple[dict[str, Any], bytes, bytes]:
    """A whole message taken apart.

    Raises:
        EOFError: it is not whole.
    """
    end = _LENGTH + int.from_bytes(message[:_LENGTH], "big")
    if len(message) < max(end, _LENGTH + 1):
        raise EOFError
    head = json.loads(message[_LENGTH:end])
    first, second = head.pop("sizes")
    if len(message) < end + first + second:
        raise EOFError
    return head, message[end : end + first], message[end + first : end + first + second]


def _exactly(control: socket.socket, size: int) -> bytes:
    read = bytearray()
    while len(read) < size:
        piece = control.recv(min(size - len(read), 1 << 20))
        if not piece:
            raise EOFError
        read += piece
    return bytes(read)
