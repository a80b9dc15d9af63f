"""Reads an `env.toml`; every mistake is reported with file, line and key."""

import difflib
import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rollouthub.errors import ConfigError
from rollouthub.limits import Limits
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest.accepted_section import AcceptedTasks
from rollouthub.plugins.manifest.declared import AdoptedFrom, RewardSection, SandboxSection
from rollouthub.plugins.manifest.manifest import Manifest
from rollouthub.plugins.manifest.python_section import PythonSection
from rollouthub.plugins.manifest.server_section import ServerSection
from rollouthub.plugins.manifest.tasks_section import TaskSource
from rollouthub.plugins.manifest.toml_places import TomlPlaces
from rollouthub.plugins.manifest.verifier_section import VerifierSection
from rollouthub.sandbox import Resources
from rollouthub.values import Frozen

SECTIONS: dict[str, type[Frozen]] = {
    "server": ServerSection,
    "python": PythonSection,
    "tasks.SPLIT": TaskSource,
    "accepted.SPLIT": AcceptedTasks,
    "verifier": VerifierSection,
    "limits": Limits,
    "reward": RewardSection,
    "sandbox": SandboxSection,
    "sandbox.resources": Resources,
    "adopted_from": AdoptedFrom,
}
"""Section of an env.toml → the model of its keys."""


def load_manifest(file: Path) -> Manifest:
    """Read and check an `env.toml`.

    Raises:
        ConfigError: every problem, each with file, line and key.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    return parse_manifest(content, str(file))


def parse_manifest(content: bytes, file: str = FILE_NAME) -> Manifest:
    """Parse and check the bytes of an `env.toml` that is not read from a file of its own; errors call it `file`.

    Raises:
        ConfigError: every problem, each with file, line and key.
    """
    try:
        text = content.decode()
        values = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not UTF-8: byte {error.start}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file} is not TOML: {error}") from error
    except RecursionError:
        raise ConfigError(f"{file} is not TOML that people write: it is nested too deeply") from None
    try:
        # As JSON, whose arrays become tuples; dates become text.
        return Manifest.model_validate_json(json.dumps(values, default=str), strict=True)
    except ValidationError as error:
        places = TomlPlaces(text)
        problems: list[Any] = error.errors(include_url=False)
        placed = sorted((places.line(_place(problem)), _said(problem)) for problem in problems)
        raise ConfigError("\n".join(f"{file}:{line}: {said}" for line, said in placed)) from None


def _place(problem: Any) -> list[str]:
    inside = [problem["ctx"]["key"]] if problem["type"] == "placed" else []
    return [*(str(step) for step in problem["loc"] if step != "[key]"), *inside]


def _said(problem: Any) -> str:
    place = _place(problem)
    key = ".".join(place)
    if problem["type"] == "placed":
        return str(problem["ctx"]["said"])
    if problem["type"] == "extra_forbidden":
        known = list(_section(place[:-1]).model_fields)
        close = difflib.get_close_matches(place[-1], known, n=1, cutoff=0.5)
        meant = f"; did you mean {close[0]!r}?" if close else f"; there are: {', '.join(known)}"
        return f"there is no key {key!r}{meant}"
    if problem["type"] == "missing":
        return f"the key {key!r} is missing"
    said = str(problem["msg"]).removeprefix("Value error, ")
    shown = "" if isinstance(problem["input"], dict) else f" = {problem['input']!r:.100}"
    return f"{key}{shown}: {said}"


def _section(place: Sequence[str]) -> type[Frozen]:
    """The model that defines a section's keys."""
    name = f"{place[0]}.SPLIT" if len(place) == 2 and place[0] in ("tasks", "accepted") else ".".join(place)
    return SECTIONS.get(name, Manifest)
