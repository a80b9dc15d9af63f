"""Reads names of tasks as a user gives them: ids, patterns, and files that list them."""

from collections.abc import Iterable
from pathlib import Path

from rollouthub.errors import ConfigError


def read_names(entries: Iterable[str], folder: Path, origin: str) -> list[str]:
    """Ids and patterns, with `@FILE` replaced by the file's lines; empty lines and lines that begin with `#` are left
    out.

    Raises:
        ConfigError: a file cannot be read, or names no task.
    """
    names: list[str] = []
    for entry in entries:
        if not entry.startswith("@"):
            names.append(entry)
            continue
        file = folder / Path(entry[1:]).expanduser()
        try:
            lines = [line.strip() for line in file.read_text("utf-8").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
            raise ConfigError(f"{origin} {entry!r}: {str(file)!r} cannot be read: {reason}") from None
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise ConfigError(f"{origin} {entry!r}: {str(file)!r} names no task; write an id or a pattern on each line")
        names += found
    return names
