"""The logs for readers of plain files: a line for each publication, yank and audit, for each package and for all.

A line is a version as the API gave it at that moment; of a version's lines the last one counts. `is_latest` and
`downloads` may be out of date. Readers ignore a last line without a line break: it is being written, or its writer was
killed.
"""

import errno
import json
import os
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import StoreError
from rollouthub_registry.names import PackageName
from rollouthub_registry.server.atomic_write import write_whole
from rollouthub_registry.server.directory_layout import Layout
from rollouthub_registry.server.version_listing import Listing

Standing = tuple[str, str | None, str | None]
"""A version's digest, why it is yanked (None if it is not), and when it was audited."""


class Journal:
    """A registry's `catalog.jsonl` and each package's `versions.jsonl`. The caller must hold the lock."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout

    def note(self, listing: Listing) -> None:
        """Append a version's present state to both files, unless it is the last one recorded.

        Raises:
            StoreError: writing failed.
        """
        package = listing.release.package
        said = _read(self._layout.versions_file(package)) or {}
        if said.get(_name(listing)) == _standing(listing):
            return
        line = _line(listing)
        _append(self._layout.catalog, line)
        # Second: where this one has the line, the catalogue has it, too.
        _append(self._layout.versions_file(package), line)

    def agrees(self, standings: dict[str, Standing]) -> bool:
        """Whether the files are complete and agree with these states, given by `namespace/name@version`."""
        if not self._layout.catalog.exists() or _read(self._layout.catalog) != standings:
            return False
        sizes: defaultdict[str, int] = defaultdict(int)
        with suppress(OSError), self._layout.catalog.open("rb") as lines:
            for line in lines:
                sizes[json.loads(line)["name"]] += len(line)
        # The same lines were written to both: where the sizes are right, what they hold is.
        return all(_size(self._layout.versions_file(PackageName.parse(name))) == size for name, size in sizes.items())

    def make_anew(self, listings: Iterable[Listing]) -> None:
        """Rewrite all files: one line per version, in the order of their last changes.

        Raises:
            StoreError: writing failed.
        """
        everything = sorted((each.updated_at, each.release.package, _line(each)) for each in listings)
        packages: defaultdict[PackageName, list[bytes]] = defaultdict(list)
        for _, package, line in everything:
            packages[package].append(line)
        for package, lines in packages.items():
            _replace(self._layout.versions_file(package), b"".join(lines))
        for file in self._layout.packages.glob("*/*/versions.jsonl"):
            if PackageName(file.parent.parent.name, file.parent.name) not in packages:
                file.unlink()
        # Last: until it is there, the sizes of the others do not fit it, and the next to open begins again.
        _replace(self._layout.catalog, b"".join(line for _, _, line in everything))


def _name(listing: Listing) -> str:
    return str(listing.release)


def _standing(listing: Listing) -> Standing:
    audit = listing.facts.audit
    return listing.facts.digest, listing.yanked, None if audit is None else str(audit["at"])


def _line(listing: Listing) -> bytes:
    return json.dumps(listing.as_json(), ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _read(path: Path) -> dict[str, Standing] | None:
    """The state of each version according to a file; None if the file is damaged."""
    standings: dict[str, Standing] = {}
    try:
        with path.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    return None
                held: dict[str, JsonValue] = json.loads(line)
                standing = (str(held["digest"]), _reason(held["yanked"]), _audited(held.get("quality")))
                standings[f"{held['name']}@{held['version']}"] = standing
    except FileNotFoundError:
        return standings
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return standings


def _reason(value: JsonValue) -> str | None:
    return value if isinstance(value, str) else None


def _audited(quality: JsonValue) -> str | None:
    audit = quality.get("audit") if isinstance(quality, dict) else None
    return _reason(audit.get("at")) if isinstance(audit, dict) else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def _append(path: Path, line: bytes) -> None:
    """Append a line completely or not at all; an incomplete last line is cut off before."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            end = _end(descriptor)
            if os.write(descriptor, line) < len(line):
                os.ftruncate(descriptor, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror or error}") from error


def _end(descriptor: int) -> int:
    """The end of the last complete line, where the file is cut off."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        end = os.pread(descriptor, end, 0).rfind(b"\n") + 1
        os.ftruncate(descriptor, end)
    return end


def _replace(path: Path, content: bytes) -> None:
    with suppress(OSError):
        if path.read_bytes() == content:
            return
    # Not waiting for the disk two thousand times: what a power failure takes is seen and made again.
    write_whole(path, content.decode(), is_durable=False)
