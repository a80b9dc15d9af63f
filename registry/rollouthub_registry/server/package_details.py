"""What a version's page shows beside its facts, from its bundle and statement: README, tools, checks, an example."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from rollouthub.errors import UsageError
from rollouthub.text import plain, plain_name, printable
from rollouthub_registry.bundle.attestation import ShownTool
from rollouthub_registry.names import Release
from rollouthub_registry.server.directory_layout import Layout
from rollouthub_registry.server.env_toml import bundle_files
from rollouthub_registry.trust.signatures import open_envelope, parse_envelope

README = "README.md"
EXAMPLE = "example.jsonl"
"""A file that a publisher adds to show a conversation: a line of `hub export --to sft`."""
README_CHARACTERS = 24_000
MOST_BYTES = 256 * 1024
"""Most bytes that are read of each file."""
MOST_MESSAGES = 40
MESSAGE_CHARACTERS = 4_000


@dataclass(frozen=True)
class ExampleStep:
    """A message or a tool call of an example; made harmless to show."""

    role: str
    """`system`, `user`, `assistant`, `tool` or `call`."""
    text: str
    name: str = ""
    """Name of the tool that is called."""


@dataclass(frozen=True)
class PackageDetails:
    """What is shown of a version."""

    readme: str | None
    tools: tuple[ShownTool, ...]
    example: tuple[ExampleStep, ...]
    """A conversation, or only the prompt of a task; empty where the bundle shows neither."""
    checks: tuple[tuple[str, str], ...]
    """Title and state of each check before publication."""


def package_details(layout: Layout, release: Release) -> PackageDetails:
    """Read what a version's page shows; what cannot be read is left out."""
    try:
        statement = open_envelope(parse_envelope(layout.statement(release).read_bytes())).statement
        said = statement.predicate
        tasks = _tasks_file(said.manifest)
        wanted = {README, EXAMPLE, *([tasks] if tasks else [])}
        files = bundle_files(layout.bundle(release), wanted, MOST_BYTES)
    except (OSError, UsageError):
        return PackageDetails(None, (), (), ())
    example = tuple(_conversation(_first_row(files, EXAMPLE)))
    return PackageDetails(
        readme=_readme(files),
        tools=said.tools or tuple(_tools(_first_row(files, EXAMPLE))),
        example=example or tuple(_prompt(_first_row(files, tasks))),
        checks=tuple(_checks(said.check.report)),
    )


def _readme(files: Mapping[str, tuple[bytes, int]]) -> str | None:
    if README not in files:
        return None
    return printable(files[README][0].decode(errors="replace"), README_CHARACTERS).strip() or None


def _tasks_file(manifest: Mapping[str, JsonValue]) -> str | None:
    """The path of the first split's rows, where it is JSONL in the bundle."""
    tasks = manifest.get("tasks")
    for source in tasks.values() if isinstance(tasks, dict) else ():
        file = source.get("file") if isinstance(source, dict) else None
        if isinstance(file, str) and Path(file).suffix == ".jsonl":
            return file.removeprefix("./")
    return None


def _first_row(files: Mapping[str, tuple[bytes, int]], name: str | None) -> dict[str, Any]:
    """The first line of a JSONL file; empty where it is no whole object."""
    if name is None or name not in files:
        return {}
    line = files[name][0].split(b"\n", 1)[0]
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", row) if isinstance(row, dict) else {}


def _prompt(row: Mapping[str, Any]) -> Iterator[ExampleStep]:
    """The prompt of a task; no other column, as those may hold its answer."""
    prompt = row.get("prompt")
    if isinstance(prompt, str):
        yield ExampleStep("user", plain(prompt, MESSAGE_CHARACTERS))
    elif isinstance(prompt, list):
        yield from _conversation({"messages": prompt})


def _conversation(row: Mapping[str, Any]) -> Iterator[ExampleStep]:
    for message in _objects(row.get("messages")):
        role, content = message.get("role"), message.get("content")
        text = content if isinstance(content, str) else "" if content is None else json.dumps(content)
        if text:
            known = role if role in ("system", "user", "assistant", "tool") else "user"
            yield ExampleStep(str(known), plain(text, MESSAGE_CHARACTERS))
        for function in _functions(message.get("tool_calls")):
            arguments = function.get("arguments")
            words = arguments if isinstance(arguments, str) else json.dumps(arguments)
            yield ExampleStep("call", plain(words, MESSAGE_CHARACTERS), plain_name(str(function.get("name"))))


def _tools(row: Mapping[str, Any]) -> Iterator[ShownTool]:
    """The tools of an example, for a statement that names none."""
    given = row.get("tools")
    try:
        tools: Any = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        return
    for function in _functions(tools):
        said = plain(str(function.get("description") or ""), 1900)
        yield ShownTool(
            name=plain_name(str(function.get("name")))[:200], description=said, input_schema=function.get("parameters")
        )


def _functions(value: Any) -> Iterator[dict[str, Any]]:
    """The functions of OpenAI's tools or tool calls."""
    for each in _objects(value):
        yield from _objects([each.get("function")])


def _objects(value: Any) -> list[dict[str, Any]]:
    """The first objects of a list; empty where it is none."""
    items: list[Any] = cast("list[Any]", value)[:MOST_MESSAGES] if isinstance(value, list) else []
    return [cast("dict[str, Any]", each) for each in items if isinstance(each, dict)]


def _checks(report: JsonValue) -> Iterator[tuple[str, str]]:
    checks = report.get("checks") if isinstance(report, dict) else None
    for check in checks[:100] if isinstance(checks, list) else ():
        if isinstance(check, dict):
            yield str(check.get("title"))[:200], str(check.get("state"))[:40]
