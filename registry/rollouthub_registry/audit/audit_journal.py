"""The journal of an audit: one line for each task that was audited, so that an interrupted audit goes on."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, Field, JsonValue, TypeAdapter, ValidationError

from rollouthub.errors import ConfigError
from rollouthub.plugins.env_toml import FILE_NAME as ENV_TOML
from rollouthub.values import Frozen
from rollouthub_registry.audit.task_finding import TaskAudit

FILE_NAME = "audit.jsonl"
VERSION = 1
_MOST_LINE = 16 * 2**20


class AuditHead(Frozen):
    """The first line of a journal: what is audited, and how."""

    version: int = VERSION
    hub_version: str
    target: tuple[str, ...]
    """The environments, as they were named."""
    folder: str = ""
    """The working folder in which they were named."""
    given: dict[str, JsonValue] = {}
    """The settings that were given, as `--set` takes them."""
    environments: dict[str, str]
    """Environment → its digest."""
    settings: dict[str, Any]
    """What decides which tasks and probes there are: split, settings, seed, repeats, probes."""

    def differs_from(self, other: "AuditHead") -> str | None:
        """What differs from another head, in words; None if an audit can go on from it."""
        for name, mine in (("environments", self.environments), ("settings", self.settings)):
            theirs = getattr(other, name)
            if mine != theirs:
                keys = sorted(key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key))
                return f"{name}: {', '.join(keys)}"
        return None


class AuditStart(Frozen):
    """A line of a journal: the audit was begun, or went on."""

    planned: int = Field(ge=0)
    """Number of tasks that were chosen."""
    bad_rows: int = Field(ge=0)
    """Number of rows among them that make no task."""
    at: AwareDatetime


@dataclass(frozen=True)
class AuditRecord:
    """What a journal holds."""

    head: AuditHead
    audits: Sequence[TaskAudit]
    start: AuditStart | None = None
    """The latest start; None if the audit was ended before it chose its tasks."""


_LINE: TypeAdapter[TaskAudit | AuditStart] = TypeAdapter(TaskAudit | AuditStart)


class AuditJournal:
    """Appends the audits of tasks to a file, and reads them again."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / FILE_NAME
        self._folder = folder

    def begin(self, head: AuditHead) -> dict[tuple[str, str], TaskAudit]:
        """Begin or go on; returns what was audited before, by environment and task.

        Raises:
            ConfigError: the folder holds an audit of something else, or cannot be written.
        """
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if not self.file.exists() or not _has_line(self.file):
                self.file.unlink(missing_ok=True)  # a killed process had half written the first line
                self._append(head.model_dump_json())
                return {}
        except OSError as error:
            raise ConfigError(f"nothing can be written to {self._folder}: {error.strerror or error}") from error
        before = read_journal(self._folder)
        if differs := before.head.differs_from(head):
            raise ConfigError(
                f"{self._folder} holds an audit of something else ({differs}); name another folder with -o"
            )
        return {(audit.environment, audit.task): audit for audit in before.audits if audit.fault is None}

    def start(self, planned: int, bad_rows: int) -> None:
        """Note that the audit begins or goes on."""
        self._append(AuditStart(planned=planned, bad_rows=bad_rows, at=datetime.now(UTC)).model_dump_json())

    def append(self, audit: TaskAudit) -> None:
        """Append a task's audit; it is on the disk when this returns."""
        self._append(audit.model_dump_json(exclude_defaults=True))

    def _append(self, line: str) -> None:
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        with os.fdopen(descriptor, "ab") as file:
            if file.tell() and not _ends_a_line(self.file):
                file.write(b"\n")  # what a killed process had half written
            file.write(line.encode() + b"\n")
            file.flush()
            os.fsync(descriptor)


def read_journal(folder: Path) -> AuditRecord:
    """Read an audit; of a task that was audited twice the later counts, and a half-written last line is left out.

    Raises:
        ConfigError: there is no audit, or it is not one that this version reads.
    """
    file = folder / FILE_NAME
    if not file.is_file():
        raise ConfigError(f"{folder} is no audit: it has no {FILE_NAME}")
    lines = _lines(file)
    try:
        head = AuditHead.model_validate_json(next(lines, "{}"))
    except ValidationError as error:
        raise ConfigError(f"{file} is no audit: {error.error_count()} problems in its first line") from None
    if head.version != VERSION:
        raise ConfigError(f"{file} was written by another version of the hub ({head.hub_version})")
    found: dict[tuple[str, str], TaskAudit] = {}
    start: AuditStart | None = None
    for number, line in enumerate(lines, 2):
        try:
            read = _LINE.validate_json(line)
        except ValidationError:
            try:
                json.loads(line)
            except ValueError:
                continue  # half written
            raise ConfigError(f"{file}, line {number}, is no audit of a task") from None
        if isinstance(read, AuditStart):
            start = read
        else:
            found[read.environment, read.task] = read
    return AuditRecord(head, list(found.values()), start)


def kept_audit(targets: Sequence[str]) -> Path | None:
    """The folder of a kept audit, if that is what a command line names."""
    if len(targets) != 1 or not targets[0]:
        return None
    folder = Path(targets[0])
    try:
        return folder if (folder / FILE_NAME).is_file() and not (folder / ENV_TOML).exists() else None
    except (OSError, ValueError):
        return None


def _has_line(file: Path) -> bool:
    with file.open("rb") as opened:
        return opened.readline(_MOST_LINE).endswith(b"\n")


def _lines(file: Path) -> Iterator[str]:
    with file.open("rb") as opened:
        while line := opened.readline(_MOST_LINE):
            if line.strip():
                yield line.decode("utf-8", errors="replace")


def _ends_a_line(file: Path) -> bool:
    with file.open("rb") as opened:
        opened.seek(-1, os.SEEK_END)
        return opened.read(1) == b"\n"
