"""The mapping table: which image stands in for one that cannot be had, for machines without a registry.

```toml
# ~/.config/rollouthub/images.toml, or the file that ROLLOUTHUB_IMAGES names
[from]
"python:3.1*-slim*" = "rollouthub/python"
"ubuntu:*" = "base"      # rollouthub's own base image
```
"""

import fnmatch
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from rollouthub.errors import ConfigError

VARIABLE, OWN_BASE = "ROLLOUTHUB_IMAGES", "base"
_REGISTRIES = ("docker.io/library/", "docker.io/", "index.docker.io/library/", "index.docker.io/")


@dataclass(frozen=True, slots=True)
class FromMap:
    """Patterns of image names, each with the image to use instead; the first that matches counts."""

    rules: Mapping[str, str] = field(default_factory=dict[str, str])
    file: Path | None = None
    """The file the table was read from, or would be read from if it existed; None for a table made in code."""

    def find(self, name: str) -> str | None:
        """The image to use instead of `name`, or None; a name without a tag is also matched with `:latest`."""
        short = _short(name)
        last = short.rpartition("/")[2]
        names = {name, short} | ({f"{short}:latest"} if ":" not in last and "@" not in last else set[str]())
        for pattern, used in self.rules.items():
            if any(fnmatch.fnmatchcase(each, pattern) for each in names):
                return used
        return None


def load_from_map(environment: Mapping[str, str] | None = None) -> FromMap:
    """The mapping table of this machine; empty where there is no file.

    Raises:
        ConfigError: the file that `ROLLOUTHUB_IMAGES` names does not exist, or the table cannot be read.
    """
    given = os.environ if environment is None else environment
    named = given.get(VARIABLE)
    home = Path(given.get("XDG_CONFIG_HOME") or Path(given.get("HOME") or "~").expanduser() / ".config")
    file = Path(named) if named else home / "rollouthub" / "images.toml"
    if not file.is_file():
        if named:
            raise ConfigError(f"{VARIABLE} names {named!r}, but there is no such file")
        return FromMap(file=file)
    try:
        content = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"the image mapping table {file} cannot be read: {error}") from error
    return FromMap(_rules(content, file), file)


def _rules(content: dict[str, Any], file: Path) -> dict[str, str]:
    table: object = content.get("from", {})
    if not isinstance(table, dict) or set(content) - {"from"}:
        raise ConfigError(f"{file} holds {', '.join(map(repr, content))}; an image mapping table has [from] alone")
    rules = cast("dict[str, object]", table)
    for pattern, used in rules.items():
        if not isinstance(used, str) or not used:
            raise ConfigError(f"{file}: {pattern!r} = {used!r}; the name of an image stands here, such as 'base'")
    return cast("dict[str, str]", rules)


def _short(name: str) -> str:
    """An image's name without the prefix of the default registry."""
    return next((name.removeprefix(start) for start in _REGISTRIES if name.startswith(start)), name)
