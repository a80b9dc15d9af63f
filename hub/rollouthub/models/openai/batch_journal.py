"""The batches of a run on disk: what was asked, under which id, and who got which answer. It survives a kill."""

import json
import logging
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from rollouthub.errors import StoreError
from rollouthub.plugins.plain_files import open_plain, own_folder, read_plain

logger = logging.getLogger(__name__)

FILE_NAME = "journal.jsonl"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND
_MOST_LINE_BYTES, _MOST_BYTES = 16 * 2**20, 2**30
"""Most bytes of a line, which names up to 50,000 requests, and of a journal, which may be another user's."""
Status = Literal["new", "sent", "over", "void"]
"""`void`: the server took none of its requests, so they are asked anew."""


@dataclass(eq=False)
class StoredBatch:
    """One batch."""

    mark: str
    """Its mark in the batch's metadata, by which it is found where its id was not stored."""
    path: str
    """The API's path, which all its requests have."""
    custom_ids: Sequence[str]
    created: float
    """Seconds since the epoch."""
    input_file: str | None = None
    id: str | None = None
    status: Status = "new"
    ended_as: str | None = None
    """The server's word for its end."""
    counts: dict[str, int] = field(default_factory=dict[str, int])
    """Requests in all (`total`), `completed` and `failed`, as the server counted them last."""

    def as_json(self) -> dict[str, Any]:
        """Its facts for `--json`."""
        return {
            "id": self.id,
            "status": self.ended_as or self.status,
            "total": len(self.custom_ids),
            "completed": self.counts.get("completed", 0),
            "failed": self.counts.get("failed", 0),
            "age_seconds": round(max(0.0, time.time() - self.created), 1),
        }


class BatchJournal:
    """Appends what happens to batches, and reads it again. Blocking; called in threads."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.batches: dict[str, StoredBatch] = {}
        self.used: dict[str, int] = {}
        """Custom id → attempt that got its answer."""
        self._file: int | None = None

    def open(self) -> None:
        """Read what is there.

        Raises:
            StoreError: the folder cannot be read or written.
        """
        try:
            for folder in (self.directory.parent, self.directory):
                own_folder(folder)
            self.read()
            self._file = open_plain(self.directory / FILE_NAME, _FLAGS)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")  # a kill tore the last line, which is no event
        except OSError as error:
            raise StoreError(f"the batches in {self.directory} cannot be opened: {error}") from error

    def read(self) -> None:
        """Read what happened so far.

        Raises:
            StoreError: the journal is damaged, or no file.
        """
        for event in _events(self.directory / FILE_NAME):
            self._take(event)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def begin(self, path: str, lines: Mapping[str, bytes]) -> StoredBatch:
        """Store a batch that is about to be sent, with its requests by custom id."""
        batch = StoredBatch(secrets.token_hex(8), path, tuple(lines), time.time())
        with os.fdopen(open_plain(self.requests(batch), os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            for line in lines.values():
                file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._write({"batch": batch.mark, "path": path, "created": batch.created, "custom_ids": list(batch.custom_ids)})
        self.batches[batch.mark] = batch
        return batch

    def uploaded(self, batch: StoredBatch, file_id: str) -> None:
        """Store the id of a batch's input file."""
        self._note(batch, input_file=file_id)

    def sent(self, batch: StoredBatch, batch_id: str) -> None:
        """Store a batch's id."""
        self._note(batch, id=batch_id, status="sent")

    def ended(self, batch: StoredBatch, ended_as: str, *, is_void: bool = False) -> None:
        """Store a batch's end; its requests are not needed any more."""
        status = "void" if is_void else "over"
        self._note(batch, status=status, ended_as=ended_as, counts=batch.counts)
        self.requests(batch).unlink(missing_ok=True)

    def use(self, custom_id: str, attempt: int) -> None:
        """Store that an attempt got an answer; no other attempt gets it."""
        self.used[custom_id] = attempt
        self._write({"used": custom_id, "attempt": attempt}, is_durable=False)

    def requests(self, batch: StoredBatch) -> Path:
        """The file of a batch's requests."""
        return self.directory / f"{batch.mark}-requests.jsonl"

    def lines(self, batch: StoredBatch) -> dict[str, bytes]:
        """A batch's requests by custom id."""
        with read_plain(self.requests(batch)) as file:
            lines = file.read().splitlines()
        return dict(zip(batch.custom_ids, lines, strict=True))

    def answers(self, batch: StoredBatch) -> tuple[Path, Path]:
        """The files of a batch's answers and of its errors."""
        return self.directory / f"{batch.mark}-output.jsonl", self.directory / f"{batch.mark}-errors.jsonl"

    def _note(self, batch: StoredBatch, **facts: Any) -> None:
        self._write({"batch": batch.mark, **facts})
        for name, value in facts.items():
            setattr(batch, name, value)

    def _write(self, event: Mapping[str, Any], *, is_durable: bool = True) -> None:
        assert self._file is not None, "an open journal is written"
        try:
            os.write(self._file, json.dumps(event).encode() + b"\n")
            if is_durable:
                os.fsync(self._file)
        except OSError as error:
            raise StoreError(f"the batches in {self.directory} cannot be written: {error}") from error

    def _take(self, event: "_JournalLine") -> None:
        if event.used is not None:
            self.used[event.used] = event.attempt
        elif event.batch is None:
            return
        elif (batch := self.batches.get(event.batch)) is not None:
            for name in ("input_file", "id", "status", "ended_as", "counts"):
                if (value := getattr(event, name)) is not None:
                    setattr(batch, name, value)
        elif event.path is not None:
            self.batches[event.batch] = StoredBatch(event.batch, event.path, event.custom_ids, event.created)


class _JournalLine(Struct, gc=False):
    """One line of a journal. It may be another user's: a mark is part of file names."""

    batch: Annotated[str, Meta(pattern=r"^[0-9a-f]{16}$")] | None = None
    path: Literal["/chat/completions", "/responses"] | None = None
    created: float = 0.0
    custom_ids: tuple[str, ...] = ()
    input_file: str | None = None
    id: str | None = None
    status: Status | None = None
    ended_as: str | None = None
    counts: dict[str, int] | None = None
    used: str | None = None
    attempt: int = 0


_decode = msgspec.json.Decoder(_JournalLine).decode


def read_batches(directory: Path) -> list[StoredBatch]:
    """The batches below a run's folder of batches, oldest first."""
    found: list[StoredBatch] = []
    for file in directory.glob(f"*/{FILE_NAME}"):
        journal = BatchJournal(file.parent)
        journal.read()
        found += journal.batches.values()
    return sorted(found, key=lambda batch: batch.created)


def batch_facts(directory: Path) -> dict[str, Any]:
    """The field of `--json` that lists a run's batches; none if it has none."""
    found = read_batches(directory)
    return {"batches": [batch.as_json() for batch in found]} if found else {}


def _events(file: Path) -> Iterator[_JournalLine]:
    try:
        lines = read_plain(file)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{file} cannot be read: {error.strerror or error}; no run has that there") from None
    with lines:
        for number, line in enumerate(iter(partial(lines.readline, _MOST_LINE_BYTES), b""), 1):
            if len(line) == _MOST_LINE_BYTES or lines.tell() > _MOST_BYTES:
                raise StoreError(f"{file}:{number} is longer than a journal of batches; it is not rollouthub's")
            try:
                yield _decode(line)
            except msgspec.ValidationError as error:
                raise StoreError(f"{file}:{number} is damaged: {error}") from None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                logger.debug("%s:%d was torn by a kill", file, number)
