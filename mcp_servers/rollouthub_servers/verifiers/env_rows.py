"""Rows of an environment as tasks: the prompt is public, everything else is the verifier's."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue, ValidationError
from pydantic_core import from_json

from rollouthub.errors import DataError, TaskError
from rollouthub.messages import Message, user
from rollouthub.task import BadRow, Public, Secret, Task
from rollouthub_servers.foreign.conversation import ForeignRow
from rollouthub_servers.foreign.imported_file import read_lines
from rollouthub_servers.foreign.said_messages import ShownMessage

_PROMPT_KEYS = ("role", "content", "tool_calls", "tool_call_id")


def read_rows(file: Path, split: str) -> Iterator[Task[Public, Secret] | BadRow]:
    """The tasks of a file, lazily; a task is named by its split and its place there.

    Raises:
        ConfigError: the file cannot be read.
    """
    for number, line in read_lines(file):
        yield _task(line, file, split, number)


def _task(line: bytes, file: Path, split: str, number: int) -> Task[Public, Secret] | BadRow:
    try:
        row = from_json(line)
        if not isinstance(row, dict):
            raise ValueError("the row holds values that are no JSON, such as a picture in a column of its own")
        values = cast(dict[str, JsonValue], row)
        prompt = _prompt(values.get("prompt"))
    except (ValueError, ValidationError, TaskError) as error:
        return BadRow(DataError(str(error)[:300], file.name, number))
    return Task(Public(id=f"{split}-{number - 1}", prompt=prompt, source=split), ForeignRow(row=values))


def _prompt(prompt: Any) -> tuple[Message, ...]:
    """A row's prompt as the agent may see it; an episode asks the library, which may add to it."""
    if isinstance(prompt, str):
        return (user(prompt),)
    if not isinstance(prompt, list):
        return (user(""),)  # the environment opens the conversation
    return tuple(ShownMessage.model_validate(_plain(message)).as_message() for message in cast(list[Any], prompt))


def _plain(message: Any) -> dict[str, Any]:
    """A message of a row in the driver's form, without the nulls that a data set fills columns with."""
    given = cast(dict[str, Any], message) if isinstance(message, dict) else {"role": "user", "content": str(message)}
    kept: dict[str, Any] = {key: given[key] for key in _PROMPT_KEYS if given.get(key)}
    content = kept.get("content", "")
    if isinstance(content, list):
        kept["content"] = [_plain_part(cast(dict[str, Any], part)) for part in cast(list[Any], content)]
    else:
        kept["content"] = str(content)
    kept["tool_calls"] = [_plain_call(call) for call in kept.get("tool_calls", ())]
    return kept


def _plain_part(part: dict[str, Any]) -> dict[str, Any]:
    picture = part.get("image_url")
    if isinstance(picture, dict):
        return {"url": str(cast(dict[str, Any], picture).get("url"))}
    return {"text": str(part.get("text") or "")}


def _plain_call(call: Any) -> dict[str, Any]:
    given = from_json(call) if isinstance(call, str) else call
    function = given.get("function") or given
    return {"id": str(given.get("id")), "name": function["name"], "arguments": str(function["arguments"])}
