"""Reads a resources server's folder (configuration, rows, requirements) without running its code."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from packaging.utils import canonicalize_name
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub_servers.foreign.yaml_text import read_yaml

SERVERS = "resources_servers"
_YAML_BYTES = 1 << 20
_POLICY = {"policy_base_url": "http://127.0.0.1:1/v1", "policy_api_key": "none", "policy_model_name": "policy"}
"""Keys that every run of NeMo Gym sets; here they are placeholders, since servers cannot call the policy."""
_ASKED = re.compile(r"\$\{(?:oc\.select:)?([A-Za-z_]\w*)(?:\.[\w.]+)?\}")
"""A reference to a key without a default, unlike `${oc.env:NAME,default}`."""
_REFERENCE = re.compile(r"\$\{(?:(oc\.env|oc\.select):)?([A-Za-z_][\w.]*)(?:,([^${}]*))?\}")
"""The innermost of nested references."""
_OWN = re.compile(r"^-e\s+(nemo-gym(\[[\w,-]*\])?\s*@\s*)?\.\./\.\.(/)?")
_HEAD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NOT_DATA = ("rollouts", "metrics", "materialized")


@dataclass(frozen=True)
class Configured:
    """One configuration of a server."""

    file: str
    name: str
    """Name of the server instance."""
    settings: dict[str, JsonValue]
    agents: tuple[str, ...]
    """The kinds of agents configured for it: `simple_agent`, `gymnasium_agent`."""

    @property
    def models(self) -> list[str]:
        """The models that the server calls itself, such as a judge, without the policy."""
        return sorted(set(_models(self.settings)))


@dataclass(frozen=True)
class ServerFolder:
    """A folder `resources_servers/NAME`, or one of the same form elsewhere."""

    folder: Path

    @property
    def name(self) -> str:
        """The server's name."""
        return self.folder.name

    def configured(self) -> list[Configured]:
        """The server's configurations; the one with the server's name comes first.

        Raises:
            ConfigError: a file is not YAML, or too large.
        """
        found: list[Configured] = []
        for file in sorted(self.folder.glob("configs/*.yaml")):
            document = _document(file)
            agents = tuple(str(kind) for body in document.values() for kind in _section(body, "responses_api_agents"))
            for instance, body in document.items():
                for kind, settings in _section(body, SERVERS).items():
                    if kind == self.name and isinstance(settings, dict):
                        found.append(Configured(file.name, str(instance), cast(dict[str, JsonValue], settings), agents))
        found.sort(key=lambda each: (Path(each.file).stem != self.name, bool(each.models), each.file))
        return found

    def rows(self) -> dict[str, Path]:
        """Split → file of rows; the examples come first."""
        files = [
            file
            for file in sorted(self.folder.glob("data/*.jsonl"))
            if not any(word in file.stem for word in _NOT_DATA)
        ]
        files.sort(key=lambda file: (file.stem != "example", file.stem))
        return {file.stem: file for file in files}

    def rollouts(self) -> list[Path]:
        """The files of recorded rollouts."""
        return [file for file in sorted(self.folder.glob("data/*rollouts*.jsonl")) if "materialized" not in file.stem]

    def requirements(self, without: Collection[str] = ()) -> list[str]:
        """The server's requirements besides NeMo Gym, and besides some distributions.

        Raises:
            ConfigError: a line cannot be met by a published wheel.
        """
        file = self.folder / "requirements.txt"
        if not file.is_file():
            return []
        found: list[str] = []
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            # Some files lack the line break after their first line.
            text = _OWN.sub("", line.strip().removesuffix("-e nemo-gym[dev] @ ../../")).partition(" #")[0].strip()
            if not text or text.startswith("#"):
                continue
            if _named(text) in {canonicalize_name(name) for name in without}:
                continue
            if text.startswith("-") or "git+" in text or "://" in text:
                raise ConfigError(f"requirements.txt: {text[:120]!r} is no published wheel")
            found.append(text)
        return found


def find_servers(root: Path) -> list[ServerFolder]:
    """The servers in a folder: the folder itself, its children, or those of its `resources_servers`."""
    if (root / "app.py").is_file():
        return [ServerFolder(root.resolve())]
    base = root / SERVERS if (root / SERVERS).is_dir() else root
    return [ServerFolder(each.resolve()) for each in sorted(base.iterdir()) if _holds_server(each)]


def _holds_server(folder: Path) -> bool:
    # A link of a repository may lead to any folder of this machine.
    return not folder.is_symlink() and (folder / "app.py").is_file()


def missing_keys(settings: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> list[str]:
    """Configuration keys that the settings refer to without a default and that are not given."""
    named = {match[1] for text in _strings(settings) for match in _ASKED.finditer(text) if "oc.select" not in match[0]}
    unset = ["???"] if any(text == "???" for text in _strings(settings)) else []
    return sorted(named - _POLICY.keys() - given.keys()) + unset


def resolved(settings: Mapping[str, JsonValue], given: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The settings with references replaced by what is given, else by their defaults; `given` adds others, too."""
    known = {**_POLICY, **{key: str(value) for key, value in given.items()}}
    referred = {match[2] for text in _strings(settings) for match in _REFERENCE.finditer(text)}
    more = {key: value for key, value in given.items() if key not in referred}
    return {**{key: _resolved(value, known) for key, value in settings.items()}, **more}


def _named(line: str) -> str:
    """The name of the distribution that a line asks for: its own, or its repository's."""
    if (found := _HEAD.match(line)) is not None and ("@ " in line or "://" not in line):
        return canonicalize_name(found[0])
    last = line.removeprefix("-e ").partition("#")[0].rstrip("/").rpartition("/")[2]
    return canonicalize_name(re.sub(r"(-[^-]+-[^-]+-[^-]+-[^-]+\.whl|\.git)?(@.*)?(\[.*)?$", "", last))


def _resolved(value: JsonValue, known: Mapping[str, str]) -> JsonValue:
    if isinstance(value, dict):
        return {key: _resolved(each, known) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolved(each, known) for each in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    text = value
    while (found := _REFERENCE.search(text)) is not None:
        stands = found[3] if found[3] is not None and found[2] not in known else known.get(found[2], "")
        if found[0] == text:
            # A whole value keeps its kind: a number, null, a quoted text.
            try:
                return cast(JsonValue, read_yaml(stands)) if stands.strip() else ""
            except ValueError as error:
                raise ConfigError(f"{found[0][:120]!r} has no value: {str(error)[:300]}") from error
        text = text[: found.start()] + stands + text[found.end() :]
    return text


def _document(file: Path) -> dict[str, Any]:
    try:
        if file.stat().st_size > _YAML_BYTES:
            raise ConfigError(f"{file} is larger than {_YAML_BYTES:,} bytes")
        document = read_yaml(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} is no configuration: {str(error)[:300]}") from error
    return cast(dict[str, Any], document) if isinstance(document, dict) else {}


def _section(body: Any, key: str) -> dict[str, Any]:
    section = cast(dict[str, Any], body).get(key) if isinstance(body, dict) else None
    return cast(dict[str, Any], section) if isinstance(section, dict) else {}


def _strings(value: Any) -> Iterator[str]:
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += cast(dict[str, Any], each).values()
        elif isinstance(each, list):
            pending += cast(list[Any], each)
        elif isinstance(each, str):
            yield each


def _models(settings: Any) -> Iterator[str]:
    pending = [settings]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            values = cast(dict[str, Any], each)
            if values.get("type") == "responses_api_models":
                yield str(values.get("name"))
            pending += values.values()
        elif isinstance(each, list):
            pending += cast(list[Any], each)
