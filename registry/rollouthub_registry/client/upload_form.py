"""The upload of a publication: a multipart form whose files are read from disk as they are sent."""

import secrets
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import anyio

_CHUNK = 2**16


class Form:
    """`multipart/form-data`, whose length is known before it is sent."""

    def __init__(self, parts: Mapping[str, Path | bytes]) -> None:
        """Take each part's name and its content, or the file that holds it."""
        self._boundary = secrets.token_hex(24)
        self._parts = [(self._head(name), content) for name, content in parts.items()]
        self._tail = f"--{self._boundary}--\r\n".encode()
        lengths = (len(head) + _length(content) + 2 for head, content in self._parts)
        self.size = sum(lengths) + len(self._tail)

    @property
    def content_type(self) -> str:
        """What its request's header says."""
        return f"multipart/form-data; boundary={self._boundary}"

    async def chunks(self) -> AsyncGenerator[bytes]:
        """All of it, a piece at a time."""
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
