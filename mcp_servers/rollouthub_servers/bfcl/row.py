"""`BfclRow`: an imported row as it is stored, and the task made of it."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json, to_json

from rollouthub import BadRow, Message, Public, Secret, Task
from rollouthub.errors import DataError, invalid_fields
from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_imported, read_lines

ROWS, SHARED = "rows.jsonl", "shared.json"
Call = dict[str, dict[str, JsonValue]]
"""Function name → arguments, as in BFCL's result files."""


class RowMessage(Frozen):
    """A message of a question."""

    role: Literal["system", "user", "assistant"]
    content: str

    def as_message(self) -> Message:
        """The message in the hub's form."""
        return Message(role=self.role, content=self.content)


class RowTool(Frozen):
    """A function as BFCL shows it to models whose interface takes JSON schema."""

    name: str
    description: str
    parameters: dict[str, JsonValue]


class BfclRow(Frozen):
    """A row with everything needed to play and check it. The agent sees only its first turn."""

    id: str
    category: str
    turns: tuple[tuple[RowMessage, ...], ...]
    conversations: tuple[tuple[RowMessage, ...], ...] = ()
    """The user's turns in earlier conversations; only in rows with memory."""
    tools: tuple[RowTool, ...]
    held: dict[int, tuple[RowTool, ...]] = {}
    """Turn → functions that become available in that turn."""
    functions: tuple[dict[str, JsonValue], ...] = ()
    """The functions as in BFCL's file, for the checker of single turns."""
    classes: tuple[str, ...] = ()
    config: dict[str, JsonValue] = {}
    """Class → initial state of its simulated API."""
    scenario: str | None = None
    truth: JsonValue = None
    carried: dict[str, JsonValue] = {}
    """Other keys of the row in BFCL's file, which neither BFCL nor the hub reads when playing."""
    reference: tuple[str | tuple[Call, ...], ...]
    """For each turn the calls, or a text."""
    reference_fails: str | None = None
    """Why BFCL's checker refuses the row's own answer; None if it passes, or can only be tested by playing."""

    @property
    def entry(self) -> dict[str, JsonValue]:
        """The part of the row that the driver needs."""
        return self.model_dump(
            mode="json", include={"id", "category", "functions", "classes", "config", "scenario", "truth"}
        )


class BfclSecret(Secret):
    """The whole row: answers, initial states, and the user's later turns."""

    row: BfclRow


def read_categories(folder: Path) -> tuple[str, ...]:
    """The imported categories.

    Raises:
        ConfigError: the folder holds no import.
    """
    return tuple(_read_shared(folder).categories)


def read_rows(folder: Path, split: str) -> Iterator[Task[Public, BfclSecret] | BadRow]:
    """The tasks of a split, read lazily; `test` for all rows, or a category.

    Raises:
        ConfigError: the folder holds no import.
    """
    file, shared = folder / ROWS, _read_shared(folder)
    for number, line in read_lines(file):
        if split == "test" or f'"category": "{split}"'.encode() in line:
            yield _task(line, shared, file, number)


def _read_shared(folder: Path) -> "SharedParts":
    return read_imported(SharedParts, folder / SHARED, "give data=FOLDER of an import")


def _task(line: bytes, shared: "SharedParts", file: Path, number: int) -> Task[Public, BfclSecret] | BadRow:
    try:
        values = from_json(line)
        for key in ("tools", "conversations"):
            if isinstance(values.get(key), str):
                values[key] = getattr(shared, key)[values[key]]
        row = BfclRow.model_validate(values)
    except ValidationError as error:
        return BadRow(DataError(f"{invalid_fields(error)}; import it again", file, number))
    except (ValueError, KeyError, AttributeError) as error:
        return BadRow(DataError(f"it is no imported row: {error!r}"[:300], file, number))
    opening = (row.conversations or row.turns)[0]
    prompt = tuple(message.as_message() for message in opening)
    public = Public(id=row.id, prompt=prompt, metadata={"category": row.category, "turns": len(row.turns)})
    return Task(public, BfclSecret(row=row, answer=row.truth))


class SharedParts(Frozen):
    """Parts that many rows have in common, stored once."""

    categories: dict[str, int] = {}
    """Category → number of rows."""
    tools: dict[str, tuple[RowTool, ...]] = {}
    """Digest → tools."""
    conversations: dict[str, tuple[tuple[RowMessage, ...], ...]] = {}
    """Digest → conversations."""


class RowWriter:
    """Writes rows to one file, and the parts they share to another."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._categories = Counter[str]()
        self._shared: dict[str, dict[str, JsonValue]] = {"tools": {}, "conversations": {}}

    def write(self, rows: Iterable[BfclRow]) -> Counter[str]:
        """Write all rows; returns their number by category."""
        with (self._folder / ROWS).open("w", encoding="utf-8") as lines:
            for row in rows:
                values: dict[str, JsonValue] = row.model_dump(mode="json", exclude_defaults=True)
                for key, known in self._shared.items():
                    if row.classes and key in values:
                        digest = hashlib.sha256(to_json(values[key])).hexdigest()[:16]
                        known[digest], values[key] = values[key], digest
                # With the space after a colon, by which a category is found without parsing.
                lines.write(json.dumps(values, ensure_ascii=False) + "\n")
                self._categories[row.category] += 1
        shared = {"categories": dict(self._categories), **self._shared}
        (self._folder / SHARED).write_bytes(to_json(shared, indent=1))
        return self._categories
