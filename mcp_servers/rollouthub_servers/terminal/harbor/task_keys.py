"""Unknown keys of a `task.toml`: which of them are harmless, and how they are named in messages."""

from collections.abc import Sequence
from typing import Any, cast

_DESCRIBING = frozenset(
    {
        "author", "authors", "author_email", "author_name", "categories", "category", "created", "created_at",
        "difficulty", "description", "domain", "homepage", "id", "keywords", "language", "languages", "license",
        "name", "notes", "source_url", "subcategory", "tags", "title", "updated", "updated_at", "url",
    }
)  # fmt: skip
"""Top-level keys with which tasks describe themselves, and that have no effect."""
_EXPLANATION = "_explanation"


def is_describing(problem: Any) -> bool:
    """Whether a validation error of pydantic is an unknown key that only describes the task."""
    if problem["type"] != "extra_forbidden":
        return False
    match problem["loc"]:
        case ("task", _, *_):
            return True
        case (str(name),):
            return name in _DESCRIBING or name.endswith(_EXPLANATION)
        case _:
            return False


def key_at(place: Sequence[int | str]) -> str:
    """A key in dotted form, such as `environment.gpus`; the same for every step."""
    return ".".join(part for part in place if isinstance(part, str))


def drop(values: Any, place: Sequence[int | str]) -> bool:
    """Remove a key (from every entry of a list if the place has no index); returns whether it was there."""
    if not place:
        return False
    if isinstance(values, list):
        entries = cast("list[Any]", values)
        if isinstance(place[0], int):
            return drop(entries[place[0]], place[1:])
        found = [drop(entry, place) for entry in entries]
        return any(found)
    if not isinstance(values, dict) or place[0] not in values:
        return False
    table = cast("dict[int | str, Any]", values)
    if len(place) > 1:
        return drop(table[place[0]], place[1:])
    del table[place[0]]
    return True


def said(problem: Any, values: dict[str, Any]) -> str:
    """The error message for a key, with its name as in the file."""
    key = ".".join(str(part) for part in problem["loc"])
    if key == "schema_version" and "version" in values:
        key = "version"
    if problem["type"] == "extra_forbidden":
        option = f"""--set 'ignore=["{key_at(problem["loc"])}"]'"""
        return f"the key {key!r} is not known, so what it asks for would not be done; leave it out with {option}"
    shown = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r:.80}"
    return f"{key}{shown}: {str(problem['msg']).removeprefix('Value error, ')}"
