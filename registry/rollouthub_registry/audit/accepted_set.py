"""Writes what an audit accepts: an environment of its own that offers only the tasks that were found sound."""

import json
import re
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import tomli_w
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.hosting.launch import is_address
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.manifest import Manifest, parse_manifest
from rollouthub.text import one_line
from rollouthub_registry.audit.audit_journal import AuditHead
from rollouthub_registry.audit.audited_base import AuditedBase, audited_base
from rollouthub_registry.audit.audited_set import AuditedSet
from rollouthub_registry.audit.task_finding import TaskAudit

_ENDING = "-accepted"
_LISTS, _DATA = "accepted", "data"
"""Folders of the lists of tasks, and of files that the environment's settings name."""
_UNSTATED = "LicenseRef-unstated"
_SHIPPED = "rollouthub"
"""Namespace of what ships with the hub, which nobody else publishes to."""


@dataclass(frozen=True)
class AcceptedSet:
    """An accepted set that was written."""

    name: str
    count: int
    """Number of its tasks."""
    left_out: int
    """Number of audited tasks that are not among them."""


def check_acceptable(targets: Sequence[str]) -> None:
    """Check that an audit of these environments can be written as an accepted set.

    Raises:
        ConfigError: there are several, or it is a server that is only attached to.
    """
    if len(targets) != 1:
        raise ConfigError(f"--accept writes one environment, and {len(targets)} are audited; audit each by itself")
    if is_address(targets[0]):
        raise ConfigError(f"--accept: {targets[0]} is a running server, of which there are no files to write")


def write_accepted(audited: AuditedSet, out: Path) -> AcceptedSet:
    """Write the sound tasks as an environment into a new folder, whole or not at all.

    Raises:
        ConfigError: no task is sound, the environment is not where it was, or the folder cannot be written.
    """
    sound = [audit for audit in audited.audits if audit.verdict == "sound"]
    head = audited.head
    if head is None or not sound:
        raise ConfigError(f"--accept {str(out)!r}: no audited task is sound, so nothing is written")
    check_acceptable(head.target)
    base = audited_base(head.target[0], Path(head.folder))
    accepted = frozenset(audit.task for audit in sound)
    rejected = frozenset(audit.task for audit in audited.audits) - accepted
    partial = out.absolute().with_name(f".{out.name}.{secrets.token_hex(8)}.partial")
    try:
        partial.mkdir()
        base.write(partial)
        settings = _Settings(partial, base, Path(head.folder), accepted, rejected)
        values = _manifest(base, head, sound, len(audited.audits))
        chosen = {key: settings.placed(value) for key, value in _given(head).items()}
        values["settings"] = {**values.get("settings", {}), **chosen}
        _write_lists(values, base, head, sound, partial)
        text = tomli_w.dumps({key: value for key, value in values.items() if value not in ({}, None)})
        manifest = parse_manifest(text.encode(), str(out / FILE_NAME))
        (partial / FILE_NAME).write_text(text, encoding="utf-8")
        partial.rename(out)
    except OSError as error:
        raise ConfigError(f"--accept {str(out)!r} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return AcceptedSet(manifest.name, len(sound), len(audited.audits) - len(sound))


def _manifest(base: AuditedBase, head: AuditHead, sound: Sequence[TaskAudit], of: int) -> dict[str, Any]:
    """The base's env.toml under another name, so that the two can be told apart wherever they are installed."""
    values = dict(base.values)
    namespace, _, name = str(values["name"]).partition("/")
    name = name if name.endswith(_ENDING) else f"{name[: 60 - len(_ENDING)]}{_ENDING}"
    values["name"] = f"{'local' if namespace == _SHIPPED else namespace}/{name}"
    about = one_line(str(values.get("description", "")), 700).rstrip(".")
    about = f"{about}. " if about else ""
    values["description"] = f"{about}The {len(sound):,} of {of:,} tasks that an audit found sound."
    values.setdefault("license", _UNSTATED)
    return values


def _write_lists(
    values: dict[str, Any], base: AuditedBase, head: AuditHead, sound: Sequence[TaskAudit], folder: Path
) -> None:
    """Write the list of each split, and name it in the manifest."""
    before = Manifest.model_validate_json(json.dumps({**base.values, "name": "a/b"}, default=str)).accepted
    lists: dict[str, Any] = dict(cast(dict[str, Any], values.get("accepted", {})))
    for number, split in enumerate(sorted({audit.split for audit in sound})):
        word = re.sub(r"[^\w.-]", "-", split)[:60] or str(number)
        file = folder / _LISTS / f"{word}.jsonl"
        file.parent.mkdir(exist_ok=True)
        rows = [{"id": audit.task, "prompt": audit.prompt} for audit in sound if audit.split == split]
        file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        seed = before[split].seed if split in before else int(head.settings.get("seed", 0))
        lists[split] = {"file": f"{_LISTS}/{file.name}", "seed": seed}
    values["accepted"] = lists


def _given(head: AuditHead) -> dict[str, JsonValue]:
    """The settings that were given, without the environment's name before a key."""
    (name,) = head.environments
    return {key.removeprefix(f"{name}."): value for key, value in head.given.items()}


@dataclass(frozen=True)
class _Settings:
    """Copies the files that settings name into the new folder."""

    folder: Path
    base: AuditedBase
    origin: Path
    """The working folder of the audit, from which relative paths lead."""
    accepted: frozenset[str]
    """Ids of the tasks that are written."""
    rejected: frozenset[str]
    """Ids of tasks whose folders are not copied."""

    def placed(self, value: JsonValue) -> JsonValue:
        """A setting that leads to the copy of what it named."""
        if not isinstance(value, str) or not re.search(r"[/.]", value) or "://" in value:
            return value
        found = (self.origin / value).resolve()
        if not found.exists():
            return value
        if self.base.folder is not None and found.is_relative_to(self.base.folder.resolve()):
            return f"{{folder}}/{found.relative_to(self.base.folder.resolve())}"
        copy = self.folder / _DATA / found.name
        copy.parent.mkdir(exist_ok=True)
        if found.is_dir():
            _copy_folder(found, copy, self.accepted, self.rejected)
        else:
            shutil.copyfile(found, copy)
        return f"{{folder}}/{_DATA}/{found.name}"


def _copy_folder(source: Path, copy: Path, accepted: frozenset[str], rejected: frozenset[str]) -> None:
    """Copy a folder without tasks that were not accepted. Links stay links, but for an accepted task that is one."""

    def left_out(folder: str, names: list[str]) -> set[str]:
        inside = Path(folder).relative_to(source)
        linked = accepted if folder == str(source) else frozenset[str]()
        return {
            name
            for name in names
            if name in ("__pycache__", ".git")
            or str(inside / name) in rejected
            or (name in linked and Path(folder, name).is_symlink())
        }

    shutil.copytree(source, copy, symlinks=True, ignore=left_out, dirs_exist_ok=True)
    for entry in source.iterdir():
        if entry.name in accepted and entry.is_symlink() and entry.is_dir():
            shutil.copytree(entry.resolve(), copy / entry.name, symlinks=True)
