"""`OpenEnvImporter`: what environments of OpenEnv a source holds, and packages made of those that begin here."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import anyio
from mcp_types import Tool
from pydantic import Field, JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import (
    NO_SNAPSHOT,
    Candidate,
    ForeignFormat,
    Identity,
    ImportSource,
    Note,
    silent,
)
from rollouthub.text import plain
from rollouthub_servers.foreign.import_settings import split_settings
from rollouthub_servers.foreign.package import ImportedPackage
from rollouthub_servers.foreign.packages import write_packages
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.yaml_text import read_yaml
from rollouthub_servers.foreign_app.app_folder import AppFolder
from rollouthub_servers.foreign_app.app_source import (
    SOURCES,
    AppImport,
    AppKit,
    install_app,
    source_folder,
)
from rollouthub_servers.openenv.openenv_environment import OpenEnvConfig, read_tools, shown_fields
from rollouthub_servers.openenv.openenv_record import OpenEnvRecord
from rollouthub_servers.openenv.shown_fields import ENVELOPE, is_harmless, is_judging, is_telling, shown_text

DATA = "data"
RELEASE = "openenv-core==0.3.0"
BASE = ("fastapi", "fastmcp>=3", "httpx", "pydantic", "pyyaml", "requests", "uvicorn", "websockets")
"""What a server's own process imports of OpenEnv's dependencies: its web interface and its models are left out."""
NAMES = ("openenv", "openenv-core", "uvicorn")
"""Requirements of environments that are met otherwise, or are none of a server's own."""
BEGIN_SECONDS = 120.0
APP = "server.app:app"
_YAML_BYTES = 1 << 16
_SHOWN = 400
_NAME = re.compile(r"[A-Za-z_]\w*")
_README = """\
The OpenEnv environment `{name}`, from {source}. A task is a reset and a seed.

```bash
hub run {module}.py --limit 5 -m MODEL
hub check {module}.py
```

Its code runs unchanged in a process of its own for each episode, without a network; what it needs is locked with hashes
in `{folder}/foreign.lock.json`. Rewards are its own, and stay with the hub.

Shown of an observation: {shown}. If named (`--set 'show=[…]'`): {offered}. Never shown: {withheld}.
{judging}{unpromised}
Licence and description stand in `env.toml`: see that they are true before you publish.
"""


class OpenEnvImport(AppImport):
    """Settings of the import."""

    openenv: str = RELEASE
    """The release of OpenEnv that it runs on."""
    headers: dict[str, str] = Field(default_factory=dict[str, str])
    """Headers of its own `/reset` and `/step`, such as the token of the user who acts there."""


@dataclass(frozen=True)
class _OpenEnvFolder:
    app: AppFolder
    name: str
    """What its package is called."""
    serves: str
    """What serves it."""


class OpenEnvImporter:
    """Reads environments of OpenEnv."""

    environment = None
    about = ForeignFormat(
        summary="Environments of OpenEnv: reset, step and tools over one connection",
        item="environment",
        sources=SOURCES,
        unpromised=(
            "that an environment keeps its seed: many take none, and then only the numbers that Python and NumPy draw "
            "for all are seeded",
            "that a world ends: one that never says `done` goes on to the run's limits",
            NO_SNAPSHOT,
        ),
        available=Path(__file__).with_name("available.toml"),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """Every environment of a source, read and not run."""
        given, _, _ = split_settings(settings, OpenEnvImport, OpenEnvConfig)
        return [_candidate(each, given) for each in _found(source, note)]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """A package for each chosen environment that begins here: in `out`, or in a folder there of its name."""
        given, _, kept = split_settings(settings, OpenEnvImport, OpenEnvConfig)
        found = {each.app.name: (_candidate(each, given), each) for each in _found(source, note)}
        return write_packages(
            source,
            {name: each for name, each in found.items() if name in chosen},
            out,
            identity,
            lambda each, folder, own: _write(each, given, kept, source, folder, own, note),
        )


def _found(source: ImportSource, note: Note) -> list[_OpenEnvFolder]:
    root, needs = source_folder(source, note)
    places = (
        [root]
        if _serves(root)
        else [
            each for each in sorted((*root.glob("*"), *root.glob("envs/*"))) if not each.is_symlink() and _serves(each)
        ]
    )
    if not places:
        raise ConfigError(f"there is no environment in {source.text!r}: no folder with server/app.py or openenv.yaml")
    return [
        _OpenEnvFolder(AppFolder(each.resolve(), needs), _package(each.resolve()), _serves(each)) for each in places
    ]


def _serves(folder: Path) -> str:
    """What serves an environment; empty where the folder is none."""
    file = folder / "openenv.yaml"
    is_server = (folder / "server" / "app.py").is_file()
    if not file.is_file() or file.stat().st_size > _YAML_BYTES:
        return APP if is_server else ""
    try:
        document = read_yaml(file.read_text(encoding="utf-8", errors="replace"))
    except ValueError:
        return APP if is_server else ""
    app = cast("dict[str, Any]", document).get("app") if isinstance(document, dict) else None
    return app if isinstance(app, str) and ":" in app else APP if is_server else ""


def _package(folder: Path) -> str:
    """The name that the folder's modules import each other by."""
    try:
        document = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8", errors="replace"))
        folders = document["tool"]["setuptools"]["package-dir"]
        return next(name for name, path in folders.items() if path == "." and _NAME.fullmatch(name))
    except (OSError, KeyError, TypeError, AttributeError, StopIteration, tomllib.TOMLDecodeError):
        return re.sub(r"\W", "_", folder.name) or "environment"


def _candidate(found: _OpenEnvFolder, given: OpenEnvImport) -> Candidate:
    facts: dict[str, JsonValue] = {"served by": found.serves}
    try:
        needed = [each.name for each in found.app.requirements() if each.name not in (*NAMES, *given.without)]
    except (ConfigError, OSError) as error:
        return Candidate(id=found.app.name, reasons=(_shown(error),), facts=facts)
    return Candidate(id=found.app.name, facts={**facts, "needs": ", ".join(needed)})


def _write(
    found: _OpenEnvFolder,
    given: OpenEnvImport,
    kept: Mapping[str, JsonValue],
    source: ImportSource,
    folder: Path,
    identity: Identity,
    note: Note,
) -> Path:
    data = folder / DATA
    note(f"{found.app.name}: choosing what it needs")
    kit = AppKit(given.openenv, BASE, NAMES)
    lock, digest = install_app(found.app, found.name, kit, given, data, note)
    draft = OpenEnvRecord(
        name=found.name,
        app=found.serves,
        variables=given.variables,
        headers=given.headers,
        absent=given.absent,
        digest=digest,
    )
    runtime = ForeignRuntime(draft.program(data, foreign_home().python(lock.dependencies, note)))
    config = OpenEnvConfig.model_validate({"data": str(data), **kept})
    note(f"{found.app.name}: beginning it, to see how it is played")
    record, unpromised, seeds = anyio.run(described, runtime, draft, config.resets[0])
    if not record.shown and not config.show and record.mcp is None:
        offered = [name for name in record.withheld if not is_telling(name)]
        raise ConfigError(
            f"no field of its observations is known to be harmless; name what agents may see of {', '.join(offered)}: "
            "--set 'show=[…]'"
        )
    shown_fields(record, config.show)
    record.write(data)
    if seeds == 1 and "seeds" not in kept:
        kept = {**kept, "seeds": 1}
    return _packaged(record, lock, kept, source, identity, unpromised).write(folder)


async def described(
    runtime: ForeignRuntime, draft: OpenEnvRecord, given: Mapping[str, JsonValue]
) -> tuple[OpenEnvRecord, list[str], int]:
    """What an environment is, begun three times; what it does not promise; and 1 where its seeds begin alike.

    Raises:
        ConfigError: it cannot be played.
        TaskError: it does not start, or fails.
    """
    tools: list[Tool] = []
    try:
        async with runtime.session() as session:
            facts = await session.ask("describe", seconds=BEGIN_SECONDS)
            if "refused" in facts:
                raise ConfigError(str(facts["refused"]))
            libraries: list[str] = await session.ask("libraries", seconds=BEGIN_SECONDS)
            openings = [await session.ask("reset", seconds=BEGIN_SECONDS, seed=0, given=given)]
            form = facts["mcp"]
            if form is not None:
                tools = read_tools(await session.ask("tools", seconds=BEGIN_SECONDS, form=form))
        for seed in (0, 1):
            async with runtime.session() as session:
                openings.append(await session.ask("reset", seconds=BEGIN_SECONDS, seed=seed, given=given))
    finally:
        await anyio.to_thread.run_sync(runtime.close)
    if form is None and not facts["action"].get("properties"):
        raise ConfigError("nothing says what an action of it is: it has no /schema")
    fields = {*facts["observation"], *openings[0]["observation"], *ENVELOPE}
    fields |= {"tool_name", "result", "error", "tools"} if form == "type" else set()
    shown = sorted(filter(is_harmless, fields))
    compared = sorted(name for name in fields if not is_telling(name))
    first, again, other = (shown_text(each["observation"], compared) for each in openings)
    unpromised: list[str] = []
    if first != again:
        unpromised.append("that it begins alike under the same seed: it did not")
    taken = facts["resets"]
    if taken is not None and "seed" not in taken:
        unpromised.append("that a seed settles all of it: its reset takes none")
    record = draft.model_copy(
        update={
            **{key: facts[key] for key in ("title", "about", "actions", "line", "mcp", "action")},
            "libraries": tuple(libraries),
            "shown": tuple(shown),
            "tools": tuple(tool.name for tool in tools if not is_judging(tool.name)),
            "judging": tuple(tool.name for tool in tools if is_judging(tool.name)),
            "withheld": tuple(sorted(fields - set(shown))),
        }
    )
    return record, unpromised, 1 if first == again == other else 0


def _packaged(
    record: OpenEnvRecord,
    lock: ForeignLock,
    kept: Mapping[str, JsonValue],
    source: ImportSource,
    identity: Identity,
    lacks: Sequence[str],
) -> ImportedPackage:
    assert identity.name is not None
    release = next(f"{each.name} {each.version}" for each in lock.dependencies)
    unpromised = (*OpenEnvImporter.about.unpromised, *lacks)
    return ImportedPackage(
        name=identity.name,
        license=identity.license,
        source=source.name,
        title=f"OpenEnv environment {record.name}",
        base="rollouthub_servers.openenv:OpenEnv",
        config="OpenEnvConfig",
        settings=kept,
        ending="openenv",
        tags=("openenv",),
        determinism="none" if lacks else "seeded",
        revision=record.digest,
        changes="Played unchanged; its rewards and its connection stay with the hub.",
        unpromised=unpromised,
    ).with_readme(
        _README,
        name=record.name,
        source=f"{source.name}, on {release}",
        shown=", ".join(record.shown) or "nothing",
        offered=", ".join(name for name in record.withheld if not is_telling(name)) or "nothing",
        withheld=", ".join(filter(is_telling, record.withheld)) or "nothing",
        judging=f"\nOffered if named (`--set 'tools=[…]'`): {', '.join(record.judging)}.\n" if record.judging else "",
        unpromised="".join(f"\nNot promised: {line}." for line in unpromised) + "\n",
    )


def _shown(error: Exception) -> str:
    return plain(str(error), _SHOWN)
