"""`HarborImporter`: what of a folder of Harbor tasks can be run here, and a copy of it to keep or to publish."""

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import ConfigError, DataError
from rollouthub.plugins.entry_points import check_config
from rollouthub.plugins.importers import Candidate, Identity
from rollouthub.sandbox import Build
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.containers import agent_spec
from rollouthub_servers.terminal.harbor import HarborTask, UnknownKeys, find_tasks, load_task
from rollouthub_servers.terminal.imported import TASKS, Package, write_package
from rollouthub_servers.terminal.unsupported_features import refusals


class HarborImporter:
    """Reads tasks in the Harbor format."""

    environment = "terminal"

    def look(self, folder: Path, settings: Mapping[str, JsonValue]) -> Sequence[Candidate]:
        """Every task below a folder."""
        config = _config(folder, settings)
        return [_candidate(task_id, place, config) for task_id, place in find_tasks(str(folder))]

    def write(self, folder: Path, settings: Mapping[str, JsonValue], out: Path, identity: Identity) -> Path:
        """Copy the tasks that can be run, and write an environment of them; all of it, or nothing."""
        found = self.look(folder, settings)
        runs = {candidate.id for candidate in found if candidate.runs}
        if not runs:
            raise ConfigError(f"none of the tasks in {str(folder)!r} can be run, so there is nothing to write")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"-o {str(out)!r} is there already; name a new folder")
        kept = {name: value for name, value in settings.items() if name != "data"}
        package = Package.of(out.resolve().name, identity, folder.resolve().name, len(runs), kept)
        partial = out.resolve().with_name(f".{out.resolve().name}.{secrets.token_hex(8)}.partial")
        try:
            for task_id, place in find_tasks(str(folder)):
                if task_id in runs:
                    shutil.copytree(place, partial / TASKS / task_id)
            file = write_package(package, partial)
            if out.exists():
                out.rmdir()
            partial.rename(out)
        except OSError as error:
            raise ConfigError(f"-o {str(out)!r} cannot be written: {error.strerror or error}") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return out / file.name


def _config(folder: Path, settings: Mapping[str, JsonValue]) -> TerminalConfig:
    values = {"data": str(folder), **settings}
    return check_config(TerminalConfig, values, "environment 'terminal'", "--set")


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
    return facts | ({"ignored": ", ".join(task.ignored)} if task.ignored else {})
