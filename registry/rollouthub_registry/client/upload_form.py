"""The multipart form of a publication, whose files are read from disk as they are sent."""

import secrets
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import anyio

_CHUNK = 2**16


class Form:
    """A `multipart/form-data` body whose length is known in advance."""

    def __init__(self, parts: Mapping[str, Path | bytes]) -> None:
        """Takes the name of each part, with its content or the path of its file."""
        self._boundary = secrets.token_hex(24)
        self._parts = [(self._head(name), content) for name, content in parts.items()]
        self._tail = f"--{self._boundary}--\r\n".encode()
        lengths = (len(head) + _length(content) + 2 for head, content in self._parts)
        self.size = sum(lengths) + len(self._tail)

    @property
    def content_type(self) -> str:
        """The value of the request's `Content-Type` header."""
        return f"multipart/form-data; boundary={self._boundary}"

    async def chunks(self) -> AsyncGenerator[bytes]:
        """The body in pieces."""
        for head, content in self._parts:
            yield head
            if isinstance(content, bytes):
                yield content
            else:
                async with await anyio.open_file(content, "rb") as file:
                    while chunk := await file.read(_CHUNK):
                        yield chunk
            yield b"\r\n"
        yield self._tail

    def _head(self, name: str) -> bytes:
        said = f'Content-Disposition: form-data; name="{name}"; filename="{name}"'
        return f"--{self._boundary}\r\n{said}\r\nContent-Type: application/octet-stream\r\n\r\n".encode()


def _length(content: Path | bytes) -> int:
    return len(content) if isinstance(content, bytes) else content.stat().st_size
