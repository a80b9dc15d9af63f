"""The arguments of a tool call as blocks: code as code, patches as diffs, all else as names with values."""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import JsonValue

from rollouthub.views.cards.blocks import Block, CodeBlock, DiffBlock, FieldsBlock, PlainBlock
from rollouthub.views.cards.card_text import CardText

MOST_FIELDS = 200
"""Most arguments of a call, and fields of a result, that are shown one by one."""
LONGEST_JSON = 1_000_000
"""Most characters of a text that is looked into as JSON."""
LINE_CHARACTERS = 240
"""Most characters of a value that stands beside its name."""
_ALWAYS = frozenset({"code", "command", "cmd", "patch", "diff", "script", "source", "sql", "program"})
"""Names of arguments that are code even on one line."""
_SHELLS = ("bash", "shell", "sh", "terminal", "exec", "run_command")
_LANGUAGE_OF_NAME = {
    **dict.fromkeys(("command", "commands", "cmd"), "bash"),
    **{name: name for name in ("sql", "html", "css", "json", "yaml")},
}
_LANGUAGE_OF_ENDING = {
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("sh", "bash"), "bash"),
    **dict.fromkeys(("js", "mjs", "jsx"), "javascript"),
    **dict.fromkeys(("ts", "tsx"), "typescript"),
    **dict.fromkeys(("c", "h"), "c"),
    **dict.fromkeys(("cc", "cpp", "hpp"), "cpp"),
    **dict.fromkeys(("yml", "yaml"), "yaml"),
    **dict.fromkeys(("md", "markdown"), "markdown"),
    **{name: name for name in ("rs", "go", "java", "sql", "html", "css", "json", "toml", "xml", "rb")},
    "rs": "rust",
    "rb": "ruby",
}
_PYTHON = re.compile(r"^(?:def |class |import \w|from \w+(?:\.\w+)* import |@\w|print\()", re.MULTILINE)
_SQL = re.compile(r"\s{0,200}(?:select|insert|update|delete|with|create|alter|drop|pragma|explain)\s", re.IGNORECASE)
_PATHS = ("path", "file", "filename", "file_path", "filepath")
_DIFF = re.compile(r"\A(?:diff --git |--- [^\n]*\n\+\+\+ |@@ -\d|Index: |\*\*\* Begin Patch)")
_LOOKED_AT = 4000
"""Characters of a text by which its language is guessed."""


def argument_blocks(arguments: JsonValue, tool: str, shown: CardText) -> tuple[Block, ...]:
    """The arguments of a call; text that is no JSON object is shown as it is."""
    if isinstance(arguments, str):
        found = parsed(arguments)
        if not isinstance(found, dict):
            return (PlainBlock(*shown(arguments)),) if arguments.strip() else ()
        arguments = cast(dict[str, JsonValue], found)
    if not isinstance(arguments, dict):
        return (CodeBlock(*_code(shown, as_json(arguments), "json")),)
    return object_blocks(cast(Mapping[str, JsonValue], arguments), tool, shown)


def object_blocks(values: Mapping[str, JsonValue], tool: str, shown: CardText) -> tuple[Block, ...]:
    """Names with values: first the short ones, then code, diffs and long texts, each as a block."""
    short: list[tuple[str, str]] = []
    blocks: list[Block] = []
    for name, value in list(values.items())[:MOST_FIELDS]:
        block = _block(name, value, tool, values, shown)
        if block is None:
            short.append((shown.name(name), shown.line(value if isinstance(value, str) else as_line(value))))
        else:
            blocks.append(block)
    left = max(0, len(values) - MOST_FIELDS)
    return (*((FieldsBlock(tuple(short), left),) if short or left else ()), *blocks)


def _block(
    name: str, value: JsonValue, tool: str, beside: Mapping[str, JsonValue], shown: CardText
) -> CodeBlock | DiffBlock | None:
    if not isinstance(value, str):
        if len(text := as_line(value)) <= LINE_CHARACTERS:
            return None
        text, left = shown(as_json(value))
        return CodeBlock(text, "json", shown.name(name), left)
    plain = name.lower()
    has_lines = "\n" in value.strip()
    is_code = plain in _ALWAYS or (plain == "query" and _SQL.match(value) is not None)
    if not value or not (has_lines or is_code or len(value) > LINE_CHARACTERS):
        return None
    text, left = shown(value.removesuffix("\n"))
    if is_diff(value):
        return DiffBlock(text, shown.name(name), left)
    language = language_of(plain, value, tool, beside) if is_code or has_lines else ""
    return CodeBlock(text, language, shown.name(name), left)


def language_of(name: str, value: str, tool: str, beside: Mapping[str, JsonValue]) -> str:
    """The language of an argument by its own name, the file beside it, its text or the tool; empty if unknown."""
    if name in _LANGUAGE_OF_NAME:
        return _LANGUAGE_OF_NAME[name]
    if name == "query" and _SQL.match(value) is not None:
        return "sql"
    said = next((beside[key] for key in ("language", "lang") if isinstance(beside.get(key), str)), None)
    if isinstance(said, str) and said.isalnum():
        return said.lower()[:20]
    for key in _PATHS:
        path = beside.get(key)
        if isinstance(path, str) and (ending := path[-12:].rpartition(".")[2].lower()) in _LANGUAGE_OF_ENDING:
            return _LANGUAGE_OF_ENDING[ending]
    if _PYTHON.search(value[:_LOOKED_AT]) is not None or "python" in tool.lower()[:80]:
        return "python"
    if name in ("code", "script", "input") and any(shell in tool.lower()[:80] for shell in _SHELLS):
        return "bash"
    return "python" if name == "code" else ""


def is_diff(text: str) -> bool:
    """Whether a text begins as a change of files."""
    return _DIFF.match(text.lstrip("\n")[:_LOOKED_AT]) is not None


def raw_arguments(arguments: JsonValue, shown: CardText) -> tuple[str, int]:
    """The arguments as JSON, for readers who want them unchanged; and how many characters are left out."""
    return shown(arguments if isinstance(arguments, str) else as_json(arguments))


def parsed(text: str) -> Any:
    """The JSON object or array that a text is; None if it is none, or too long to look."""
    if text.lstrip()[:1] not in ("{", "[") or len(text) > LONGEST_JSON:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def as_json(value: Any) -> str:
    """A value as JSON, one field per line."""
    return _written(value, 2)


def as_line(value: Any) -> str:
    """A value as JSON in one line."""
    return _written(value, None)


def _written(value: Any, indent: int | None) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent)
    except RecursionError:
        return "(nested too deeply to show)"


def _code(shown: CardText, text: str, language: str) -> tuple[str, str, str, int]:
    cut, left = shown(text)
    return cut, language, "", left
