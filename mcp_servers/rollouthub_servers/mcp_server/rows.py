"""Makes tasks of the rows of a tasks file."""

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue, TypeAdapter, ValidationError

from rollouthub.authoring.rows import Row
from rollouthub.errors import DataError
from rollouthub.messages import Message, ToolRequest, assistant
from rollouthub.task import BadRow, Public, Secret, Task

KEYS = ("id", "prompt", "system", "source", "metadata", "answer", "secret", "reference", "files")


class RowPublic(Public):
    """The part of a row that the agent may see."""


class RowSecret(Secret):
    """The part of a row for the verifier, and the episode's seed files."""

    secret: dict[str, JsonValue] = {}
    """Further facts for the verifier."""
    folder: str | None = None
    """This task's own seed folder."""
    files: dict[str, str] = {}
    """This task's seed files: path → text."""


def read_tasks(
    rows: Iterable[tuple[str, Row] | BadRow], split: str, folder: Path
) -> Iterator[Task[Public, Secret] | BadRow]:
    """The tasks of a source's rows, made lazily; `folder` is that of env.toml."""
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        task_id, values = row
        try:
            # A bare file is always the split `test` to its source; here the manifest names it.
            own = task_id if "id" in values.values else f"{split}/{values.index}"
            yield _task(own, values, folder)
        except DataError as error:
            yield BadRow(error)


def _task(task_id: str, row: Row, folder: Path) -> Task[Public, Secret]:
    for key in row.values:
        if key not in KEYS:
            close = difflib.get_close_matches(key, KEYS, n=1, cutoff=0.5)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            raise row.error(
                f"there is no key {key!r}{meant} Facts for agents go into `metadata`, for the verifier into `secret`."
            )
    values: dict[str, Any] = {key: value for key, value in row.values.items() if value is not None}
    if "prompt" not in values:
        raise row.missing(("prompt",), "prompt")
    try:
        public = RowPublic.model_validate(
            {"id": task_id} | {key: values[key] for key in ("prompt", "system", "source", "metadata") if key in values}
        )
        files = values.get("files", {})
        if isinstance(files, str) and not (folder / files).is_dir():
            raise row.error(f"files = {files!r}: there is no such folder beside env.toml")
        secret = RowSecret.model_validate(
            {
                "answer": values.get("answer"),
                "secret": values.get("secret", {}),
                "reference": _reference(row, values.get("reference", [])),
                "folder": files if isinstance(files, str) else None,
                "files": {} if isinstance(files, str) else files,
            }
        )
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in problem["loc"])
        raise row.error(f"{place}: {problem['msg']}, this is {problem['input']!r:.100}") from None
    return Task(public, secret)


def _reference(row: Row, steps: Any) -> tuple[Message, ...]:
    """The oracle's messages: a text is a message, and `{"name", "arguments"}` is a tool call."""
    if not isinstance(steps, list):
        raise row.error(f"reference must be a list of texts and tool calls, this is {steps!r:.100}")
    messages: list[Message] = []
    for number, step in enumerate(cast(list[Any], steps), start=1):
        if isinstance(step, str):
            messages.append(assistant(step))
        elif isinstance(step, dict) and "name" in step and not step.keys() - {"name", "arguments"}:
            call = cast(dict[str, Any], step)
            arguments = TypeAdapter(JsonValue).dump_json(call.get("arguments", {})).decode()
            messages.append(
                assistant("", ToolRequest(id=f"reference-{number}", name=str(call["name"]), arguments=arguments))
            )
        else:
            raise row.error(
                f'reference step {number} must be a text or {{"name": …, "arguments": {{…}}}}, this is {step!r:.100}'
            )
    return tuple(messages)
