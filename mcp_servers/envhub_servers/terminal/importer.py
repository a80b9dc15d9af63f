"""`HarborImporter`: what of a folder of Harbor tasks can be run here, and a copy of it to keep."""

import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from envhub.errors import ConfigError, DataError
from envhub.importers import Candidate
from envhub.plugins import check_config
from envhub.sandbox import Build
from envhub_servers.terminal.config import TerminalConfig
from envhub_servers.terminal.harbor import HarborTask, find_tasks, load_task
from envhub_servers.terminal.places import agent_spec
from envhub_servers.terminal.refusals import refusals

TASKS = "tasks"
_MODULE = '''"""Harbor tasks, copied from {name}."""

from pathlib import Path
from typing import Any

from pydantic import model_validator

from envhub import Environment
from envhub_servers.terminal import Terminal, TerminalConfig

DEFAULTS: dict[str, Any] = {{
    "data": str(Path(__file__).parent / "{tasks}"),
{settings}}}


class ImportedConfig(TerminalConfig):
    """What is not set is as it was when the tasks were imported."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        return DEFAULTS | values


class Imported(Terminal, Environment[ImportedConfig]):
    """Tasks in the Harbor format from {name}."""
'''


class HarborImporter:
    """Reads tasks in the Harbor format."""

    environment = "terminal"

    def look(self, folder: Path, settings: Mapping[str, JsonValue]) -> Sequence[Candidate]:
        """Every task below a folder."""
        config = _config(folder, settings)
        return [_candidate(task_id, place, config) for task_id, place in find_tasks(str(folder))]

    def write(self, folder: Path, settings: Mapping[str, JsonValue], out: Path) -> Path:
        """Copy the tasks that can be run, and write an environment of them."""
        runs = {candidate.id for candidate in self.look(folder, settings) if candidate.runs}
        if not runs:
            raise ConfigError(f"none of the tasks in {str(folder)!r} can be run, so there is nothing to write")
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise ConfigError(f"--out {str(out)!r} is there already; name a new folder")
        for task_id, place in find_tasks(str(folder)):
            if task_id in runs:
                shutil.copytree(place, out / TASKS / task_id)
        kept = {name: value for name, value in settings.items() if name != "data"}
        lines = "".join(f'    "{name}": {value!r},\n' for name, value in sorted(kept.items()))
        file = out / f"{_module_name(out.resolve().name)}.py"
        file.write_text(_MODULE.format(name=folder.resolve().name, tasks=TASKS, settings=lines))
        return file


def _config(folder: Path, settings: Mapping[str, JsonValue]) -> TerminalConfig:
    values = {"data": str(folder), **settings}
    return check_config(TerminalConfig, values, "environment 'terminal'", "--set")


def _candidate(task_id: str, place: Path, config: TerminalConfig) -> Candidate:
    try:
        task = load_task(task_id, place)
    except DataError as error:
        return Candidate(id=task_id, reasons=(str(error).replace(f"{place}/", ""),))
    reasons = refusals(task, config, config.caller())
    return Candidate(id=task_id, reasons=tuple(reasons), facts={} if reasons else _facts(task, config))


def _facts(task: HarborTask, config: TerminalConfig) -> dict[str, JsonValue]:
    spec = agent_spec(task, config, config.caller())
    image = "Dockerfile" if isinstance(spec.image, Build) else str(spec.image)
    return {"steps": len(task.steps), "image": image, "profile": spec.profile, "network": spec.network}


def _module_name(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_") or "tasks"
