"""Filling in templates: what `{agent_url}` and its like stand for in a command, a variable or a file."""

import json
import re
from collections.abc import Iterable, Mapping

from envhub.errors import UnknownNameError

PLACEHOLDERS = ("agent_url", "llm_url", "api_key", "model", "prompt", "prompt_file", "home", "program")
_WORD = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


def check_words(words: Iterable[str]) -> None:
    """Refuse a placeholder that stands for nothing: it is a slip, and the program would be given it as it is.

    Raises:
        ValueError: names it, and what there is.
    """
    for word in words:
        for found in _WORD.finditer(word):
            if found[2] is not None and found[2] not in PLACEHOLDERS:
                unknown = UnknownNameError("placeholder", found[2], PLACEHOLDERS)
                raise ValueError(f"{word!r}: {unknown} To have {found[0]} itself, double the braces.")


def names_in(words: Iterable[str]) -> set[str]:
    """The placeholders of templates."""
    return {found[2] for word in words for found in _WORD.finditer(word) if found[2] is not None}


def fill(template: str, values: Mapping[str, str]) -> str:
    """Put values in place of their names; what has no value stays."""
    return _WORD.sub(lambda found: f"{{{found[1]}}}" if found[1] else values.get(found[2], found[0]), template)


def fill_file(template: str, values: Mapping[str, str]) -> str:
    """Fill in a file, whose own braces stay: values are written as they stand inside a JSON or TOML string."""
    quoted = {name: json.dumps(value)[1:-1] for name, value in values.items()}
    return re.sub(r"\{([a-z_]+)\}", lambda found: quoted.get(found[1], found[0]), template)
