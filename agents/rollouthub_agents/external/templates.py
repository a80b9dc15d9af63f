"""Fills templates such as `{agent_url}` in a command, a variable or a file."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping

PLACEHOLDERS = ("agent_url", "llm_url", "api_key", "model", "prompt", "prompt_file", "home", "program")
_WORD = re.compile(r"\{\{([a-z_]+)\}\}|\{([a-z_]+)\}")


def check_words(words: Iterable[str]) -> None:
    """Refuse likely typos of placeholders, which would be passed to the program unchanged.

    Raises:
        ValueError: names the typo and the similar placeholder.
    """
    for word in words:
        for found in _WORD.finditer(word):
            name = found[2]
            if name is None or name in PLACEHOLDERS:
                continue
            if close := difflib.get_close_matches(name, PLACEHOLDERS, n=1, cutoff=0.75):
                raise ValueError(
                    f"there is no placeholder {found[0]}; did you mean {{{close[0]}}}? "
                    f"To have {found[0]} itself, double the braces."
                )


def names_in(words: Iterable[str]) -> set[str]:
    """The names of all placeholders in templates."""
    return {found[2] for word in words for found in _WORD.finditer(word) if found[2] is not None}


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replace placeholders by their values; those without a value stay."""
    return _WORD.sub(lambda found: f"{{{found[1]}}}" if found[1] else values.get(found[2], found[0]), template)


def fill_file(template: str, values: Mapping[str, str]) -> str:
    """Replace placeholders in a file by values escaped for JSON or TOML strings; other braces stay."""
    quoted = {name: json.dumps(value)[1:-1] for name, value in values.items()}
    return re.sub(r"\{([a-z_]+)\}", lambda found: quoted.get(found[1], found[0]), template)
