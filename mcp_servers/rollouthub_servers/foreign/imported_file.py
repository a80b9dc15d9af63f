"""Reads files that an import wrote: a record of one model, or lines that are a row each."""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from rollouthub.errors import ConfigError, invalid_fields
from rollouthub.values import Frozen

ImportedT = TypeVar("ImportedT", bound=Frozen)
AGAIN = "import it again"


def read_imported(model: type[ImportedT], file: Path, hint: str = AGAIN) -> ImportedT:
    """Read one record; `hint` says what to do where there is none.

    Raises:
        ConfigError: there is none, or it is damaged.
    """
    try:
        return model.model_validate_json(file.read_bytes())
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}; {hint}") from error
    except ValidationError as error:
        raise ConfigError(f"{file} is damaged, or of a newer hub: {invalid_fields(error)}; {AGAIN}") from error


def read_lines(file: Path, hint: str = AGAIN) -> Iterator[tuple[int, str]]:
    """The numbers, from 1, and texts of a file's lines, lazily.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            yield from enumerate(lines, 1)
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}; {hint}") from error
