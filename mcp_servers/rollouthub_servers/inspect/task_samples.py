"""Samples as tasks: what the dataset asks is public, everything else is the verifier's."""

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, JsonValue, ValidationError

from rollouthub.errors import DataError, TaskError, invalid_fields
from rollouthub.messages import Message, user
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub_servers.foreign.conversation import ForeignRow
from rollouthub_servers.foreign.imported_file import read_lines
from rollouthub_servers.foreign.said_messages import ShownMessage
from rollouthub_servers.inspect.task_record import SAMPLES, SPLIT, TaskRecord


class _SampleLine(BaseModel):
    """A line of the file, as the driver gives it."""

    shown: list[ShownMessage]
    choices: list[str]
    sample: dict[str, JsonValue]


def read_samples(data: Path) -> Iterator[Task[Public, Secret] | BadRow]:
    """The tasks of an imported folder, lazily; one is named by its sample, or by its place.

    Raises:
        ConfigError: the folder cannot be read.
    """
    record = TaskRecord.read(str(data))
    for number, line in read_lines(data / SAMPLES):
        yield _task(line, record, number)


def _task(text: bytes, record: TaskRecord, number: int) -> Task[Public, Secret] | BadRow:
    if text.strip() == b"null":
        return BadRow(DataError("the sample holds what is no JSON, such as an object in its metadata", SAMPLES, number))
    try:
        line = _SampleLine.model_validate_json(text)
        prompt = tuple(message.as_message() for message in line.shown)
    except (ValidationError, TaskError) as error:
        said = invalid_fields(error) if isinstance(error, ValidationError) else str(error)
        return BadRow(DataError(said[:300], SAMPLES, number))
    name = str(line.sample.get("id")) if record.has_ids else f"{SPLIT}-{number - 1}"
    public = Public(id=name, prompt=_with_choices(prompt, line.choices), source=record.name)
    return Task(public, ForeignRow(row=line.sample))


def _with_choices(prompt: tuple[Message, ...], choices: list[str]) -> tuple[Message, ...]:
    """A sample's input as it can be listed; an episode asks the library, whose solver has its own words around it."""
    if not choices:
        return prompt
    listed = "\n".join(f"{chr(ord('A') + at)}) {choice}" for at, choice in enumerate(choices))
    return (*prompt, user(listed))
