"""Receives a publication: writes the two parts of a form to disk under size limits."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import BinaryIO

from anyio import to_thread
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from rollouthub_registry.bundle.limits import ARCHIVE_BYTES
from rollouthub_registry.server.atomic_write import receiving
from rollouthub_registry.server.directory_layout import BUNDLE, STATEMENT, Layout
from rollouthub_registry.server.server_error import RegistryRequestRefused
from rollouthub_registry.server.upload_check import STATEMENT_BYTES

_PARTS = {b"bundle": (BUNDLE, ARCHIVE_BYTES), b"statement": (STATEMENT, STATEMENT_BYTES)}
"""Name of each part → the file it is written to, and its most bytes."""
_FORM_BYTES = 64 * 2**10
"""Most bytes of the form around the parts."""
MOST_BYTES = ARCHIVE_BYTES + STATEMENT_BYTES + _FORM_BYTES
_LONGEST_HEADER = 4096


@asynccontextmanager
async def upload_folder(layout: Layout) -> AsyncGenerator[Path]:
    """A folder for an upload, removed on exit unless it was published."""
    held = receiving(layout)
    folder = await to_thread.run_sync(held.__enter__)
    try:
        yield folder
    finally:
        # A few files: faster removed than a thread could be told to, and not to be cancelled.
        held.__exit__(None, None, None)


async def receive(content_type: str, declared: str | None, chunks: AsyncIterator[bytes], folder: Path) -> None:
    """Write a form's two parts into a folder.

    Raises:
        RegistryRequestRefused: the form is invalid or too long.
    """
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary")
    if kind != b"multipart/form-data" or not boundary:
        raise RegistryRequestRefused(415, "send multipart/form-data with the parts `bundle` and `statement`")
    if declared is not None and declared.isdigit() and int(declared) > MOST_BYTES:
        raise RegistryRequestRefused(413, f"the upload says it has {declared} bytes; {MOST_BYTES} are the most")
    parts, total = _Parts(folder), 0
    try:
        parser = MultipartParser(boundary, parts.callbacks())  # pyright: ignore[reportArgumentType]  # its TypedDict names all of them
        async for chunk in chunks:
            total += len(chunk)
            if total > MOST_BYTES:
                raise RegistryRequestRefused(413, f"the upload has more than {MOST_BYTES} bytes")
            await to_thread.run_sync(parser.write, chunk)
    except FormParserError as error:
        raise RegistryRequestRefused(400, f"the upload is no form of two parts: {error}") from error
    finally:
        parts.close()
    parts.check()


class _Parts:
    """Writes the parts to files as the parser finds them; used by one thread at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._field, self._value = b"", b""
        self._disposition = b""
        self._file: BinaryIO | None = None
        self._name, self._left = "", 0
        self._seen: set[str] = set()
        self._is_whole = False

    def callbacks(self) -> dict[str, Callable[..., None]]:
        """The callbacks for the parser."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._open,
            "on_part_data": self._data,
            "on_part_end": self.close,
            "on_end": self._end,
        }

    def close(self) -> None:
        """Close the file being written."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def check(self) -> None:
        """Check that both parts were received completely.

        Raises:
            RegistryRequestRefused: they were not.
        """
        if not self._is_whole:
            raise RegistryRequestRefused(400, "the upload was cut short; nothing was published: send it again")
        if missing := {file for file, _ in _PARTS.values()} - self._seen:
            raise RegistryRequestRefused(400, f"the upload lacks {' and '.join(sorted(missing))}")

    def _begin(self) -> None:
        self._field, self._value, self._disposition = b"", b"", b""

    def _header_field(self, text: bytes, start: int, end: int) -> None:
        self._field = self._bounded(self._field + text[start:end])

    def _header_value(self, text: bytes, start: int, end: int) -> None:
        self._value = self._bounded(self._value + text[start:end])

    def _bounded(self, text: bytes) -> bytes:
        if len(text) > _LONGEST_HEADER:
            raise RegistryRequestRefused(400, "a header of a part is too long")
        return text

    def _header_end(self) -> None:
        if self._field.lower() == b"content-disposition":
            self._disposition = self._value
        self._field, self._value = b"", b""

    def _open(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"")
        if name not in _PARTS:
            raise RegistryRequestRefused(
                400, f"the upload has a part {name[:40]!r}; there are `bundle` and `statement`"
            )
        self._name, self._left = _PARTS[name]
        if self._name in self._seen:
            raise RegistryRequestRefused(400, f"the upload has the part {name.decode()!r} twice")
        self._seen.add(self._name)
        self._file = (self._folder / self._name).open("xb")

    def _data(self, text: bytes, start: int, end: int) -> None:
        assert self._file is not None
        self._left -= end - start
        if self._left < 0:
            raise RegistryRequestRefused(413, f"{self._name} is longer than it may be")
        self._file.write(memoryview(text)[start:end])

    def _end(self) -> None:
        self._is_whole = True
