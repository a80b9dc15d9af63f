"""Listing tasks page by page, each split read once where its pages are asked for in order."""

import base64
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import suppress

import anyio.lowlevel
from pydantic import ValidationError

from rollouthub.errors import UsageError
from rollouthub.hosting.control_wire import BadCard
from rollouthub.protocols import EnvironmentHost, TaskCard
from rollouthub.task import BadRow
from rollouthub.values import Frozen

PAGE = 500
MOST_ON_A_PAGE = 1000
PAGE_BYTES = 8 * 2**20
"""A page ends here, too."""
READERS = 16
"""Splits kept half read; an older one is read again from its start."""
READER_SECONDS = 300.0
_BREATH = 64
"""Cards made before others get their turn."""


class _Cursor(Frozen):
    reader: str
    split: str
    seed: int
    offset: int


class _Reader:
    """A split, read as far as its pages went."""

    def __init__(self, cards: AsyncIterator[TaskCard | BadRow]) -> None:
        self.cards = cards
        self.offset = 0
        self.ahead: bytes | None = None
        """A card that no longer fitted the page."""
        self.touched = time.monotonic()


class TaskPages:
    """The pages of a host's tasks."""

    def __init__(self, host: EnvironmentHost) -> None:
        self._host = host
        self._readers: OrderedDict[str, _Reader] = OrderedDict()

    async def page(self, split: str | None, seed: int | None, cursor: str | None, limit: int) -> bytes:
        """A `CardPage`, as JSON.

        Raises:
            UsageError: the cursor is none of ours, or there is no such split.
        """
        if cursor is None:
            place = _Cursor(reader="", split=split or self._host.info.splits[0], seed=seed or 0, offset=0)
        else:
            place = _parse(cursor)
            if split not in (None, place.split) or seed not in (None, place.seed):
                raise UsageError("the cursor belongs to another split or seed")
        reader = self._taken(place) or await self._begun(place)
        cards = await _read(reader, limit)
        following: str | None = None
        if reader.ahead is not None:
            following = self._keep(place, reader)
        tail = b',"next_cursor":' + (b"null" if following is None else b'"' + following.encode() + b'"')
        return b'{"cards":[' + b",".join(cards) + b"]" + tail + b"}"

    def _taken(self, place: _Cursor) -> _Reader | None:
        """The reader that stands where a cursor points; out of the shelf while it is read from."""
        reader = self._readers.get(place.reader)
        if reader is None or reader.offset != place.offset:
            return None
        return self._readers.pop(place.reader)

    async def _begun(self, place: _Cursor) -> _Reader:
        """A new reader, moved to where the cursor points."""
        reader = _Reader(self._host.tasks(place.split, place.seed))
        while reader.offset < place.offset:
            if await _next(reader) is None:
                break
            reader.offset += 1
            if reader.offset % _BREATH == 0:
                await anyio.lowlevel.checkpoint()
        return reader

    def _keep(self, place: _Cursor, reader: _Reader) -> str:
        name = secrets.token_hex(8)
        reader.touched = now = time.monotonic()
        self._readers[name] = reader
        while len(self._readers) > READERS or now - next(iter(self._readers.values())).touched > READER_SECONDS:
            self._readers.popitem(last=False)
        cursor = _Cursor(reader=name, split=place.split, seed=place.seed, offset=reader.offset)
        return base64.urlsafe_b64encode(cursor.model_dump_json().encode()).decode()


def _parse(cursor: str) -> _Cursor:
    with suppress(ValueError, ValidationError):
        return _Cursor.model_validate_json(base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
    raise UsageError("the cursor is none of this server's; begin again without one")


async def _read(reader: _Reader, limit: int) -> list[bytes]:
    """The next cards, up to a page full; one more is read ahead, to know whether another page follows."""
    cards: list[bytes] = []
    size = 0
    while True:
        card = reader.ahead if reader.ahead is not None else await _next(reader)
        reader.ahead = card
        if card is None or len(cards) >= limit or (cards and size + len(card) > PAGE_BYTES):
            return cards
        reader.ahead = None
        reader.offset += 1
        cards.append(card)
        size += len(card)
        if len(cards) % _BREATH == 0:
            await anyio.lowlevel.checkpoint()


async def _next(reader: _Reader) -> bytes | None:
    try:
        return card_json(await anext(reader.cards))
    except StopAsyncIteration:
        return None


def card_json(card: TaskCard | BadRow) -> bytes:
    """A `Card` or `BadCard`, written without building it: there may be a million."""
    if isinstance(card, BadRow):
        error = card.error
        where = f"{error.file}:{error.line}: " if error.line is not None else f"{error.file}: "
        problem = str(error).removeprefix(where)
        return BadCard(problem=problem, file=error.file, line=error.line).model_dump_json().encode()
    head = _Head(split=card.split, digest=card.digest, has_reference=card.has_reference).model_dump_json()
    return f'{head[:-1]},"public":{card.public.model_dump_json()}}}'.encode()


class _Head(Frozen):
    """A `Card` but for its public half."""

    split: str
    digest: str
    has_reference: bool | None = None
