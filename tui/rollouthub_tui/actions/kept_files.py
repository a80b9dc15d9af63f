"""The stored files of a rollout and its run: artifacts, pictures, the log."""

import mimetypes
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mcp_types import AudioContent, ImageContent

from rollouthub.live.steering.action_target import Target
from rollouthub.live.steering.watched_run import WatchedRun
from rollouthub.messages import Media
from rollouthub.rollout import Rollout
from rollouthub.statistics.amounts import turn_number
from rollouthub.store.media import media_name
from rollouthub.store.sql_schema import MEDIA
from rollouthub.text import plain_name

_MOST = 200
_SAMPLE_BYTES, _BEGINNING_BYTES = 4096, 32
_TEXT = ("text/", "application/json", "application/toml", "application/xml", "application/x-sh")
_ENDINGS = {
    "image/png": (".png", rb"\x89PNG\r\n\x1a\n"),
    "image/jpeg": (".jpg", rb"\xff\xd8\xff"),
    "image/gif": (".gif", rb"GIF8[79]a"),
    "image/webp": (".webp", rb"RIFF....WEBP"),
    "application/pdf": (".pdf", rb"%PDF-"),
    "audio/wav": (".wav", rb"RIFF....WAVE"),
    "audio/x-wav": (".wav", rb"RIFF....WAVE"),
    "audio/mpeg": (".mp3", rb"ID3|\xff[\xe2-\xff]"),
    "audio/ogg": (".ogg", rb"OggS"),
    "audio/flac": (".flac", rb"fLaC"),
    "video/mp4": (".mp4", rb"....ftyp"),
    "video/webm": (".webm", rb"\x1aE\xdf\xa3"),
}
"""File types that may be opened with desktop programs, none of which executes them: suffix, and how the content begins.

A desktop may take other types for a web page, a playlist or a program.
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A stored file."""

    label: str
    path: Path
    mime_type: str | None
    """Its declared MIME type; None if there is none."""

    @property
    def is_text(self) -> bool:
        """Whether it is text, to be shown in a pager."""
        if self.mime_type is not None:
            return self.mime_type.startswith(_TEXT)
        with self.path.open("rb") as stream:
            return b"\0" not in stream.read(_SAMPLE_BYTES)

    @property
    def ending(self) -> str | None:
        """The suffix to open it with in a desktop program; None if it must not be opened so."""
        ending, beginning = _ENDINGS.get(self.mime_type or "", (None, b""))
        if ending is None:
            return None
        with self.path.open("rb") as stream:
            return ending if re.match(beginning, stream.read(_BEGINNING_BYTES), re.DOTALL) else None


def kept_files(run: WatchedRun, target: Target | None) -> Iterator[Kept]:
    """The files of a rollout, then those of its run.

    Raises:
        RunDirectoryError: the record is damaged or gone.
    """
    if target is not None and target.place is not None:
        for rollout in run.feed.records([target.place]):
            yield from _of_rollout(run.directory / MEDIA, rollout)
    log = run.directory / "logs" / "run.log"
    if _is_own(log):
        yield Kept("the run's log", log, "text/plain")


def _is_own(path: Path) -> bool:
    """Whether the path is a regular file: the folder of a run from elsewhere may hold links to files of this
    machine, or devices.
    """
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _of_rollout(folder: Path, rollout: Rollout) -> Iterator[Kept]:
    seen: set[str] = set()
    for digest, label, mime_type in _named(rollout):
        with suppress(ValueError):
            path = folder / media_name(digest)
            if digest not in seen and len(seen) < _MOST and _is_own(path):
                seen.add(digest)
                yield Kept(label, path, mime_type)


def _named(rollout: Rollout) -> Iterator[tuple[str, str, str | None]]:
    for artifact in rollout.artifacts:
        yield artifact.digest, f"artifact {plain_name(artifact.name)}", mimetypes.guess_type(artifact.name)[0]
    for turn in rollout.turns:
        for message in (*turn.messages, turn.response):
            for part in message.content if not isinstance(message.content, str) else ():
                if isinstance(part, Media):
                    yield part.digest, f"{plain_name(part.mime_type)} of {turn_number(turn.index)}", part.mime_type
        for call in turn.tool_calls:
            for part in call.result.content:
                if isinstance(part, ImageContent | AudioContent):
                    label = (
                        f"{plain_name(part.mime_type)} that {plain_name(call.name)} gave in {turn_number(turn.index)}"
                    )
                    yield part.data, label, part.mime_type
