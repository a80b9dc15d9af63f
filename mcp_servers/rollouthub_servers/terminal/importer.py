"""`HarborImporter`: lists which Harbor tasks of a folder can be run here, and writes an environment of them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import ConfigError, DataError
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.importers import Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub.sandbox import Build
from rollouthub_servers.foreign.copied_folder import copy_folder
from rollouthub_servers.foreign.package import ImportedPackage, package_name
from rollouthub_servers.new_folder import new_folder
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import agent_access, agent_compose, agent_spec
from rollouthub_servers.terminal.harbor import HarborTask, UnknownKeys, load_task
from rollouthub_servers.terminal.harbor.task_set import SetTask, opened_set
from rollouthub_servers.terminal.unsupported_features import refusals

TASKS = "tasks"
_README = """\
{count} tasks in the Harbor format, copied from {source}. They need Docker or Podman.

```bash
hub run {module}.py --agent oracle
hub check {module}.py
hub publish . --registry REGISTRY       # others: hub install {name}
```

Where they are installed, their images are built without a network; `--build-network bridge` lifts that.

Licence and description stand in `env.toml`: see that they are true before you publish.
"""


class HarborImporter:
    """Imports tasks in the Harbor format."""

    environment = "terminal"
    about = ForeignFormat(
        summary="Tasks that are worked on in a container (Harbor, Terminal-Bench 2)",
        item="task",
        sources={
            "folder": "a task, or a folder that holds several, each with its task.toml",
            "git": "one of a commit, git+https://HOST/REPOSITORY@COMMIT#subdirectory=FOLDER",
            "file": "a registry.json, or a dataset.toml beside its tasks",
        },
        unpromised=("that a task meets the same world twice: its image and its tests may read the clock or a network",),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """List every task of a set; of a registry's, only those that are asked for are fetched."""
        with opened_set(source, note) as found:
            return _candidates(found, _config(source, settings))

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """Copy the chosen tasks that can be run, and write one environment with them; on failure nothing is written."""
        with opened_set(source, note) as found:
            candidates = _candidates(found, _config(source, settings))
            runs = {candidate.id for candidate in candidates if candidate.runs} & set(chosen)
            if not runs:
                raise ConfigError(f"none of the tasks in {source.text!r} can be run, so there is nothing to write")
            kept = {name: value for name, value in settings.items() if name != "data"}
            name = package_name(identity, out.resolve().name)
            package = _package(name, identity.license, source.name, len(runs), kept)
            with new_folder(out) as partial:
                for task in found:
                    if task.id in runs and task.folder is not None:
                        copy_folder(task.folder, partial / TASKS / task.id)
                file = package.write(partial)
        return [out / file.name]


def _package(
    name: str, terms: str | None, source: str, count: int, settings: Mapping[str, JsonValue]
) -> ImportedPackage:
    return ImportedPackage(
        name=name,
        license=terms,
        source=source,
        title=f"{count} tasks in the Harbor format",
        base="rollouthub_servers.terminal:Terminal",
        config="TerminalConfig",
        settings=settings,
        folder=TASKS,
        tags=("terminal", "containers", "harbor"),
        unpromised=HarborImporter.about.unpromised,
        network="bridge" if "bridge" in (settings.get("network"), settings.get("verifier_network")) else "none",
    ).with_readme(_README, count=count, name=name)


def _config(source: ImportSource, settings: Mapping[str, JsonValue]) -> TerminalConfig:
    values = {"data": source.text, **settings}
    return check_config(TerminalConfig, values, "environment 'terminal'", "--set")


def _candidates(found: Sequence[SetTask], config: TerminalConfig) -> list[Candidate]:
    return [
        _candidate(task.id, task.folder, config)
        if task.folder is not None
        else Candidate(id=task.id, reasons=(task.problem,))
        for task in found
    ]


def _candidate(task_id: str, place: Path, config: TerminalConfig) -> Candidate:
    try:
        task = load_task(task_id, place, config.ignore)
    except UnknownKeys as error:
        wider = config.model_copy(update={"ignore": (*config.ignore, *error.keys)})
        rest = _candidate(task_id, place, wider)
        option = f"ignore={json.dumps([*config.ignore, *error.keys])}"
        lifts = rest.runs or bool(rest.lifted_by)
        options = (option, *rest.lifted_by) if lifts else ()
        return Candidate(id=task_id, reasons=(_said(error, place), *rest.reasons), lifted_by=options)
    except DataError as error:
        return Candidate(id=task_id, reasons=(_said(error, place),))
    reasons = refusals(task, config, config.caller())
    if not reasons:
        return Candidate(id=task_id, facts=_facts(task, config))
    offline = config.model_copy(update={"network": "none"})
    lifts = config.network is None and not refusals(task, offline, config.caller())
    return Candidate(id=task_id, reasons=tuple(reasons), lifted_by=("network=none",) if lifts else ())


def _said(error: DataError, place: Path) -> str:
    return str(error).replace(f"{place}/", "")


def _facts(task: HarborTask, config: TerminalConfig) -> dict[str, JsonValue]:
    spec = agent_spec(task, config, config.caller())
    image = "Dockerfile" if isinstance(spec.image, Build) else str(spec.image)
    facts: dict[str, JsonValue] = {
        "steps": len(task.steps),
        "image": image,
        "profile": spec.profile,
        "network": spec.network,
    }
    access, services = agent_access(task, config), agent_compose(task, config).services
    named = {
        "allowed_hosts": ", ".join(access.hosts or ()),
        "side_cars": ", ".join(services),
        "mcp_servers": ", ".join(server.name for server in task.settings.environment.mcp_servers),
        "gpus": task.settings.environment.gpus or 0,
    }
    facts |= {key: value for key, value in named.items() if value}
    return facts | ({"ignored": ", ".join(task.ignored)} if task.ignored else {})
