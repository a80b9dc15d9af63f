"""`NemoGymImporter`: lists the servers of a wheel, a checkout or a folder, and writes packages of those that run
here.
"""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.importers import (
    NO_SNAPSHOT,
    Candidate,
    ForeignFormat,
    Identity,
    ImportSource,
    Note,
    silent,
)
from rollouthub.plugins.lock import LockedDependency
from rollouthub.task import Task
from rollouthub.values import Frozen
from rollouthub_servers.foreign.copied_folder import check_links, copy_file, copy_folder
from rollouthub_servers.foreign.package import ImportedPackage
from rollouthub_servers.foreign.packages import write_packages
from rollouthub_servers.foreign.partial_lock import lock_once
from rollouthub_servers.foreign.requirements import foreign_home
from rollouthub_servers.nemo_gym.gym_rows import read_rows
from rollouthub_servers.nemo_gym.server_folder import Configured, ServerFolder, find_servers, missing_keys, resolved
from rollouthub_servers.nemo_gym.server_record import RECORD, ROWS, ServerRecord

RELEASE = "nemo-gym==0.7.0"
"""The NeMo Gym release for a server's folder, unless `--set nemo_gym=…` names another."""
BASE = (
    *(
        "openai==2.44.0",
        "pydantic",
        "fastapi",
        "uvicorn",
        "httptools",
        "uvloop",
        "itsdangerous",
        "hydra-core>=1.4.0rc1",
    ),
    *("omegaconf>=2.4", "aiohttp", "requests", "rich", "psutil", "orjson", "pandas", "scipy", "tqdm", "devtools"),
    *(
        "anyio",
        "mcp<2",
        "jinja2",
        "pyyaml",
        "packaging",
        "python-multipart",
        "wandb",
        "ray",
        "yappi",
        "pydot",
        "setuptools<81",
        "anthropic",
    ),
)
"""The dependencies of NeMo Gym that a server's process imports, without trackers and test tools."""
_JUDGED = "it asks a model itself, such as a judge, and none is given to it here"
_FEW = 50
_LEFT_OUT = shutil.ignore_patterns("__pycache__", ".venv")
_README = """\
The resources server `{name}` of NeMo Gym, configured as in `{config}`: {count} tasks.

```bash
hub run {module}.py --model MODEL       # {agent}
hub score ROLLOUTS.jsonl --env {module}.py
```

Its code runs unchanged in a process of its own, without a network. Not promised: {unpromised}.
"""


@dataclass(frozen=True)
class _FoundServer:
    """A server with what its files say about it."""

    server: ServerFolder
    candidate: Candidate
    configured: Configured | None


class NemoGymImport(Frozen):
    """Settings of the import."""

    nemo_gym: str = RELEASE
    """The release that a server's folder runs on."""
    judge: Literal["refuse", "none"] = "refuse"
    """Whether servers that ask a model are refused, or imported without one."""
    without: tuple[str, ...] = ()
    """Distributions that are left out, as they have no wheel; using one fails."""
    requirements: tuple[str, ...] = ()
    """Further requirements: what a server imports and does not name."""
    values: dict[str, JsonValue] = {}
    """Values of keys that its configuration refers to and nobody else gives. They stay in the package: no secrets."""


class NemoGymImporter:
    """Imports resources servers of NeMo Gym."""

    environment = None
    about = ForeignFormat(
        summary="Resources servers of NeMo Gym: tools, state and verifier over HTTP",
        item="server",
        sources={
            "requirement": "the wheel, nemo-gym==0.7.0",
            "folder": "a server's folder (app.py, configs/, data/), or a checkout that holds several",
        },
        unpromised=(
            "that a server meets the same world twice under one seed: it is told none",
            "that what its tools did is still known where a stored rollout is scored again",
            NO_SNAPSHOT,
            "that episodes side by side share nothing, where a server has threads once it is loaded and so cannot be "
            "forked, or keeps files beside its code: `--set isolation=process` gives each episode a server of its own",
        ),
        available=Path(__file__).with_name("available.toml"),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """List every server of a source."""
        return [each.candidate for each in _found(source, _given(settings), note)]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """Write a package for each chosen server that can run: in `out`, or in one folder per server there if there
        are several.
        """
        given = _given(settings)
        found = [each for each in _found(source, given, note) if each.candidate.id in chosen]
        release = source.text if source.kind == "requirement" else given.nemo_gym
        wheel = cache(lambda: foreign_home().wheel(release))  # needed where something is written

        def write(each: _FoundServer, folder: Path, own: Identity) -> Path:
            note(f"{each.server.name}: choosing what it needs")
            return _write(each, wheel(), source, given, folder, own)

        return write_packages(
            source, {each.server.name: (each.candidate, each) for each in found}, out, identity, write
        )


def _given(settings: Mapping[str, JsonValue]) -> NemoGymImport:
    return check_config(NemoGymImport, dict(settings), "the import", "--set")


def _found(source: ImportSource, given: NemoGymImport, note: Note) -> list[_FoundServer]:
    root = (
        source.folder if source.kind == "folder" else foreign_home().unpacked(foreign_home().wheel(source.text), note)
    )
    servers = find_servers(root)
    if not servers:
        raise ConfigError(f"there is no resources server in {source.text!r}, that is, no folder with an app.py")
    return [_look(server, given) for server in servers]


def _look(server: ServerFolder, given: NemoGymImport) -> _FoundServer:
    without_judge = given.judge == "none"
    reasons: list[str] = []
    configured: Configured | None = None
    count = bad = 0
    try:
        check_links(server.folder, _LEFT_OUT)
        all_configured = server.configured()
        if not all_configured:
            reasons.append("configs/: no file configures it")
        else:
            configured = all_configured[0]
            where = f"configs/{configured.file}"
            if configured.models and not without_judge:
                reasons.append(_JUDGED)
            if missing := missing_keys(configured.settings, given.values):
                reasons.append(f"{where}: no setting gives {', '.join(missing)}")
        server.requirements(given.without)
        rows = server.rows()
        if not rows:
            reasons.append("data/: it has no file of rows")
        for split, file in list(rows.items())[:1]:
            for number, task in enumerate(read_rows(file, split)):
                count, bad = count + isinstance(task, Task), bad + (not isinstance(task, Task))
                if number >= _FEW:
                    break
        if rows and not count:
            reasons.append(f"data/{next(iter(rows))}.jsonl: no row makes a task")
    except (ConfigError, msgspec.DecodeError, OSError) as error:
        reasons.append(str(error).replace(f"{server.folder}/", "")[:300])
    facts: dict[str, JsonValue] = {
        "tasks": f"{count}{'+' if count > _FEW else ''}",
        "bad rows": bad or "",
        "kind": "steps" if configured and "gymnasium_agent" in configured.agents else "tools",
        "recorded": len(server.rollouts()) or "",
        "models": ", ".join(configured.models) if configured else "",
    }
    lifted = ("judge=none",) if reasons == [_JUDGED] else ()
    unpromised = ("a score where its judge would be asked: that is a fault of the verifier",) if without_judge else ()
    candidate = Candidate(id=server.name, reasons=tuple(reasons), lifted_by=lifted, facts=facts, unpromised=unpromised)
    return _FoundServer(server, candidate, configured)


def _write(
    found: _FoundServer,
    wheel: LockedDependency,
    source: ImportSource,
    given: NemoGymImport,
    folder: Path,
    identity: Identity,
) -> Path:
    """Write one package; its requirements are resolved now, and installed when it is first played."""
    server, configured = found.server, found.configured
    assert configured is not None
    is_wheel = source.kind == "requirement"
    data = folder / "data"
    (data / ROWS).mkdir(parents=True)
    splits = server.rows()
    for split, file in splits.items():
        copy_file(file, data / ROWS / f"{split}.jsonl", server.folder)
    own = None if is_wheel else f"server/resources_servers/{server.name}"
    if own is not None:
        copy_folder(server.folder, data / own, _LEFT_OUT)
    needed = (*server.requirements(given.without), *given.requirements)
    lock = lock_once(needed, given.without, BASE).model_copy(update={"wheel": wheel})
    lock.write(data, "server")
    record = ServerRecord(
        name=server.name,
        instance=configured.name,
        config=configured.file,
        settings=resolved(configured.settings, given.values),
        absent=tuple(name.replace("-", "_") for name in given.without),
        splits=tuple(splits),
        steps="gymnasium_agent" in configured.agents,
        folder=own,
    )
    (data / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
    return _package(found, record, source, wheel, identity).write(folder)


def _package(
    found: _FoundServer, record: ServerRecord, source: ImportSource, wheel: LockedDependency, identity: Identity
) -> ImportedPackage:
    assert identity.name is not None
    unpromised = (*NemoGymImporter.about.unpromised, *found.candidate.unpromised)
    return ImportedPackage(
        name=identity.name,
        license=identity.license or ("Apache-2.0" if source.kind == "requirement" else None),
        source=source.name,
        title=f"Resources server {record.name} of NeMo Gym",
        base=f"rollouthub_servers.nemo_gym:{'NemoGymSteps' if record.steps else 'NemoGym'}",
        config="NemoGymConfig",
        settings={},
        ending="server",
        tags=("nemo-gym",),
        revision=f"{wheel.name}=={wheel.version}",
        changes="Played unchanged; its reward and its session stay with the hub.",
        unpromised=unpromised,
    ).with_readme(
        _README,
        name=record.name,
        config=record.config,
        count=found.candidate.facts["tasks"],
        agent="its own agent is " + ", ".join(found.configured.agents if found.configured else ()),
        unpromised="; ".join(unpromised),
    )
