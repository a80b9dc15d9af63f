"""`OrsImporter`: the environments that an ORS server offers, and packages made of those that begin here."""

import atexit
import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, cast

import anyio
from pydantic import JsonValue, NonNegativeInt, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from rollouthub.errors import ConfigError, invalid_fields
from rollouthub.plugins.importers import NO_SNAPSHOT, Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub.text import plain
from rollouthub_servers.foreign.import_settings import split_settings
from rollouthub_servers.foreign.package import ImportedPackage, is_part
from rollouthub_servers.foreign.packages import write_packages
from rollouthub_servers.foreign.requirements import foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign_app.app_folder import AppFolder
from rollouthub_servers.foreign_app.app_source import (
    SOURCES,
    AppImport,
    AppKit,
    install_app,
    source_folder,
)
from rollouthub_servers.ors.ors_environment import OrsConfig, tools_of
from rollouthub_servers.ors.ors_record import OrsRecord

DATA = "data"
RELEASE = "ors-sdk==0.1.0"
BASE = ("aiohttp", "fastapi", "pydantic", "sse-starlette", "structlog", "tenacity", "typing-extensions", "uvicorn")
NAMES = ("ors-sdk", "openreward")
BEGIN_SECONDS = 120.0
_ENTRIES = ("server.py", "main.py", "app.py")
_SERVES = b"Server("
_CODE_BYTES = 1 << 20
_SHOWN = 400
_README = """\
The environment `{name}` of an ORS server, from {source}: {tasks}. A task is a split and a place in it.

```bash
hub run {module}.py --limit 5 -m MODEL
hub check {module}.py
```

Its code runs unchanged in a process of its own for each episode, without a network; what it needs is locked with hashes
in `{folder}/foreign.lock.json`. Rewards, tasks and what tools say beside their answer stay with the hub.
{unpromised}
Licence and description stand in `env.toml`: see that they are true before you publish.
"""


class _OfferedTool(TypedDict):
    name: str


class _Offer(TypedDict):
    name: str
    refused: NotRequired[str]
    splits: NotRequired[dict[str, NonNegativeInt]]
    tools: NotRequired[list[_OfferedTool]]
    groups: NotRequired[bool]


_OFFER = TypeAdapter(_Offer)


class OrsImport(AppImport):
    """Settings of the import."""

    ors: str = RELEASE
    """The release of ORS that it runs on."""
    entry: str | None = None
    """The program that serves it, in its folder; found where it is not given."""


@dataclass(frozen=True)
class _Looked:
    folder: Path
    """Of an import that is not written yet: its code and its lock; gone with this process."""
    draft: OrsRecord
    offered: dict[str, dict[str, Any]]
    candidates: list[Candidate]


@dataclass
class OrsImporter:
    """Reads servers of the Open Reward Standard."""

    about: ForeignFormat = ForeignFormat(  # noqa: RUF009 - frozen
        summary="Environments of servers of the Open Reward Standard (ORS)",
        item="environment",
        sources={**SOURCES, "folder": "the folder of a server's program (server.py)"},
        unpromised=(
            "that a task begins alike twice: a server takes no seed, and only what Python and NumPy draw is seeded",
            "anything that it asks of the network, or of secrets: neither is there",
            NO_SNAPSHOT,
        ),
    )
    environment: str | None = None
    _found: dict[str, _Looked] = field(default_factory=dict[str, _Looked])
    """What was found under which source and settings: an import looks before it writes."""

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """Every environment that the server lists; it is started for that, in a process of its own."""
        return self._look(source, settings, note).candidates

    def _look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note) -> _Looked:
        key = json.dumps([source.text, dict(settings)], sort_keys=True)
        if key not in self._found:
            given, _, _ = split_settings(settings, OrsImport, OrsConfig)
            root, needs = source_folder(source, note)
            app = AppFolder(root.resolve(), needs)
            entry = _entry(app.folder, given.entry)
            folder = Path(tempfile.mkdtemp(prefix="rollouthub-ors-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            data = folder / DATA
            note("choosing what it needs")
            lock, digest = install_app(app, app.name, AppKit(given.ors, BASE, NAMES), given, data, note)
            draft = OrsRecord(
                folder=app.name, entry=entry, variables=given.variables, absent=given.absent, digest=digest
            )
            python = foreign_home().python(lock.dependencies, note)
            note("starting it, to see what it offers")
            offered, libraries = anyio.run(described, ForeignRuntime(draft.program(data, python)))
            draft = draft.model_copy(update={"libraries": tuple(libraries)})
            self._found[key] = _Looked(folder, draft, offered, [_candidate(each) for each in offered.values()])
        return self._found[key]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """A package for each chosen environment: in `out`, or in a folder there of its name."""
        _, _, kept = split_settings(settings, OrsImport, OrsConfig)
        looked = self._look(source, settings, note)

        def write(offer: Mapping[str, Any], folder: Path, own: Identity) -> Path:
            shutil.copytree(looked.folder / DATA, folder / DATA)
            record = looked.draft.model_copy(update={"name": offer["name"], "splits": offer["splits"]})
            record.write(folder / DATA)
            return _packaged(record, offer, source, kept, own).write(folder)

        found = {each.id: (each, looked.offered[each.id]) for each in looked.candidates if each.id in chosen}
        return write_packages(source, found, out, identity, write)


async def described(runtime: ForeignRuntime) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """What a server offers, by the names of its environments, the first task of each begun; and what it imports.

    Raises:
        TaskError: it does not start, or fails.
        ConfigError: it lists no environment.
    """
    try:
        async with runtime.session() as session:
            offers: list[dict[str, Any]] = await session.ask("describe", seconds=BEGIN_SECONDS)
            libraries: list[str] = await session.ask("libraries", seconds=BEGIN_SECONDS)
        offered = {offer["name"]: offer for offer in map(_checked, offers)}
        for name, offer in offered.items():
            if not is_part(name):  # it names a folder
                offer["refused"] = "its name is none that a folder can have"
            if "refused" in offer:
                continue
            split = next((split for split, count in offer["splits"].items() if count), None)
            if split is None:
                offer["refused"] = "no split of it has a task"
                continue
            try:
                async with runtime.session() as session:
                    begun = await session.ask("begin", seconds=BEGIN_SECONDS, name=name, split=split, index=0, seed=0)
                tools_of(begun["tools"])
            except Exception as error:
                offer["refused"] = str(error)
    finally:
        await anyio.to_thread.run_sync(runtime.close)
    if not offered:
        raise ConfigError("the server lists no environment")
    return offered, libraries


def _checked(offer: Any) -> dict[str, Any]:
    """The driver's description of an environment; if it is not in the standard's form, why it cannot be imported."""
    try:
        return dict(_OFFER.validate_python(offer, strict=True))
    except ValidationError as error:
        name = cast("dict[str, Any]", offer).get("name") if isinstance(offer, dict) else offer
        return {"name": str(name), "refused": f"its server describes it badly: {invalid_fields(error)}"}


def _entry(folder: Path, given: str | None) -> str:
    """The program that serves, in a server's folder.

    Raises:
        ConfigError: there is none, or more than one.
    """
    if given is not None:
        if not (folder / given).resolve().is_relative_to(folder) or not (folder / given).is_file():
            raise ConfigError(f"entry={given!r}: there is no such file in the server's folder")
        return given
    serving = [each.name for each in sorted(folder.glob("*.py")) if _may_serve(each)]
    for name in _ENTRIES:
        if name in serving:
            return name
    if len(serving) != 1:
        found = f"{', '.join(serving)} may" if serving else "no program does"
        raise ConfigError(f"no server.py serves in {folder.name!r}, and {found}; name one: --set entry=FILE.py")
    return serving[0]


def _may_serve(file: Path) -> bool:
    return file.stat().st_size <= _CODE_BYTES and _SERVES in file.read_bytes()


def _candidate(offer: Mapping[str, Any]) -> Candidate:
    if "refused" in offer:
        return Candidate(id=offer["name"], reasons=(plain(str(offer["refused"]), _SHOWN),))
    splits = ", ".join(f"{split}: {count}" for split, count in offer["splits"].items())
    facts: dict[str, JsonValue] = {"tasks": splits, "tools": ", ".join(each["name"] for each in offer["tools"])}
    return Candidate(id=offer["name"], facts={**facts, "compares groups": "yes" if offer["groups"] else ""})


def _packaged(
    record: OrsRecord,
    offer: Mapping[str, Any],
    source: ImportSource,
    kept: Mapping[str, JsonValue],
    identity: Identity,
) -> ImportedPackage:
    assert identity.name is not None
    unpromised = OrsImporter.about.unpromised
    return ImportedPackage(
        name=identity.name,
        license=identity.license,
        source=source.name,
        title=f"ORS environment {record.name}",
        base=f"rollouthub_servers.ors:{'OrsGroups' if offer['groups'] else 'Ors'}",
        config="OrsConfig",
        settings=kept,
        ending="ors",
        tags=("ors",),
        revision=record.digest,
        changes="Played unchanged; its rewards, its tasks and its session stay with the hub.",
        unpromised=unpromised,
    ).with_readme(
        _README,
        name=record.name,
        tasks=", ".join(f"{count} tasks in {split!r}" for split, count in record.splits.items()),
        unpromised="".join(f"\nNot promised: {line}." for line in unpromised) + "\n",
    )
