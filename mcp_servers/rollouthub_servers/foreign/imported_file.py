"""Reads files that an import wrote: a record, or rows, one a line."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from rollouthub.errors import ConfigError, invalid_fields
from rollouthub.values import Frozen

ImportedT = TypeVar("ImportedT", bound=Frozen)
AGAIN = "import it again"


def read_imported(model: type[ImportedT], file: Path, hint: str = AGAIN) -> ImportedT:
    """Read a record; `hint` says what to do if the file is missing.

    Raises:
        ConfigError: the file cannot be read, or is damaged.
    """
    try:
        return model.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}; {hint}") from error
    except ValidationError as error:
        raise ConfigError(f"{file} is damaged, or of a newer hub: {invalid_fields(error)}; {AGAIN}") from error


def read_lines(file: Path, hint: str = AGAIN) -> Iterator[tuple[int, bytes]]:
    """The numbers (from 1) and contents of a file's lines, read lazily; `hint` says what to do if the file is missing.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        with file.open("rb") as lines:
            yield from enumerate(lines, 1)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}; {hint}") from error
