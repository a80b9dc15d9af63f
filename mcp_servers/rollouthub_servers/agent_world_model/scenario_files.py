"""Reads the JSONL files of AgentWorldModel-1K line by line, and stores what an import needs from them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue, ValidationError

from rollouthub import BadRow, Public, Secret, Task
from rollouthub.errors import ConfigError, DataError, invalid_fields
from rollouthub.values import Frozen
from rollouthub_servers.foreign.imported_file import read_lines

TASKS, SCENARIOS = "tasks.jsonl", "scenarios"
VERIFIERS = ("gen_verifier.pure_code.jsonl", "gen_verifier.jsonl")
_FILES = {"env": "gen_envs.jsonl", "db": "gen_db.jsonl", "sample": "gen_sample.jsonl"}
_MOST_LINE = 16 << 20
_FUNCTION = "def verify_task_completion("


class AwmTask(Frozen):
    """A task and its verifier."""

    index: int
    text: str
    verifier: str
    carried: dict[str, JsonValue] = {}
    """The other fields of its row in the verifiers' file."""


class ScenarioTasks(Frozen):
    """One line of an import's task file: all tasks of one scenario."""

    scenario: str
    tasks: tuple[AwmTask, ...]
    carried: dict[str, JsonValue] = {}


class AwmSecret(Secret):
    """The verifier of a task, which agents never see."""

    scenario: str
    verifier: str


@dataclass
class FoundScenario:
    """A scenario in a folder of AgentWorldModel's files."""

    name: str
    tasks: list[str]
    carried: dict[str, Any]
    verifiers: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    parts: set[str] = field(default_factory=set[str])
    """Which of the other files contain the scenario."""

    @property
    def playable(self) -> list[AwmTask]:
        """The tasks that have a verifier in code."""
        return [
            AwmTask(index=index, text=text, verifier=code, carried=_without_code(self.verifiers[index]))
            for index, text in enumerate(self.tasks)
            if _FUNCTION in (code := _code_of(self.verifiers.get(index, {})))
        ]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the scenario cannot be played; empty where it can."""
        missing = [f"{file} has no row of it" for part, file in _FILES.items() if part not in self.parts]
        if not self.playable:
            missing.append(f"verification.code: no task has a function {_FUNCTION[4:-1]}")
        return tuple(missing)


def normal_name(scenario: str) -> str:
    """The name under which all files mean the same scenario, as AgentWorldModel's own code makes it."""
    return re.sub(r"_+", "_", re.sub(r"[^a-z0-9_]", "_", scenario.lower())).strip("_")


def find_scenarios(folder: Path) -> dict[str, FoundScenario]:
    """Every scenario of `gen_tasks.jsonl`, with what the other files have of it.

    Raises:
        ConfigError: a file is missing, or holds a line that is no row.
    """
    found: dict[str, FoundScenario] = {}
    for row in _rows(folder / "gen_tasks.jsonl"):
        told = row.get("tasks")
        tasks = cast("list[Any]", told) if isinstance(told, list) else []
        if not tasks or not all(isinstance(each, str) for each in tasks):
            raise ConfigError(f"{folder / 'gen_tasks.jsonl'}: {row['scenario']!r} has no list of tasks")
        name = normal_name(row["scenario"])
        found[name] = FoundScenario(name, tasks, {key: value for key, value in row.items() if key != "tasks"})
    verifiers = next((folder / name for name in VERIFIERS if (folder / name).is_file()), None)
    if verifiers is None:
        raise ConfigError(f"{folder} has neither {VERIFIERS[0]} nor {VERIFIERS[1]}")
    for row in _rows(verifiers):
        scenario, index = found.get(normal_name(row["scenario"])), row.get("task_idx")
        if scenario is not None and isinstance(index, int):
            scenario.verifiers[index] = row
    for part, file in _FILES.items():
        for row in _rows(folder / file):
            scenario = found.get(normal_name(row["scenario"]))
            if scenario is not None and _is_whole(part, row):
                scenario.parts.add(part)
    return found


def write_scenarios(folder: Path, chosen: list[FoundScenario], data: Path) -> None:
    """Write each scenario's application and world into a file of its own, and all tasks into one."""
    wanted = {each.name for each in chosen}
    parts: dict[str, dict[str, Any]] = {name: {} for name in wanted}
    (data / SCENARIOS).mkdir()
    for part in ("db", "sample", "env"):
        for row in _rows(folder / _FILES[part]):
            name = normal_name(row["scenario"])
            if name in wanted:
                parts[name][part] = row
                if part == "env":  # the largest comes last, and is not held
                    text = json.dumps(parts.pop(name), ensure_ascii=False)
                    (data / SCENARIOS / f"{name}.json").write_text(text, encoding="utf-8")
                    wanted.discard(name)
    with (data / TASKS).open("w", encoding="utf-8") as lines:
        for each in chosen:
            row = ScenarioTasks(scenario=each.name, tasks=tuple(each.playable), carried=each.carried)
            lines.write(row.model_dump_json() + "\n")


def read_tasks(data: Path) -> Iterator[Task[Public, AwmSecret] | BadRow]:
    """Yield the tasks of an import, scenario by scenario.

    Raises:
        ConfigError: the folder holds no import.
    """
    file = data / TASKS
    for number, line in read_lines(file, "give data=FOLDER of an import"):
        try:
            row = ScenarioTasks.model_validate_json(line)
        except ValidationError as error:
            yield BadRow(DataError(f"{invalid_fields(error)}; import it again", file, number))
            continue
        for task in row.tasks:
            public = Public(id=f"{row.scenario}/{task.index}", prompt=task.text, source=row.scenario)
            yield Task(public, AwmSecret(scenario=row.scenario, verifier=task.verifier))


def _is_whole(part: str, row: dict[str, Any]) -> bool:
    if part == "env":
        return isinstance(row.get("full_code"), str)
    inner = row.get("db_schema" if part == "db" else "sample_data")
    return isinstance(inner, dict) and isinstance(inner.get("tables"), list)  # pyright: ignore[reportUnknownMemberType]


def _code_of(row: dict[str, Any]) -> str:
    verification = row.get("verification")
    code = verification.get("code") if isinstance(verification, dict) else row.get("code")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return code if isinstance(code, str) else ""


def _without_code(row: dict[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if key not in ("verification", "code")}
    verification = row.get("verification")
    if isinstance(verification, dict):
        kept["verification"] = {key: value for key, value in verification.items() if key != "code"}  # pyright: ignore[reportUnknownVariableType]
    return kept


def _rows(file: Path) -> Iterator[dict[str, Any]]:
    try:
        with file.open("rb") as lines:
            number = 0
            while line := lines.readline(_MOST_LINE):
                number += 1
                if len(line) == _MOST_LINE:
                    raise ConfigError(f"{file}:{number}: longer than {_MOST_LINE >> 20} MiB")
                if not line.strip():
                    continue
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError) as error:
                    raise ConfigError(f"{file}:{number}: no JSON: {error}"[:300]) from error
                if not isinstance(row, dict) or not isinstance(row.get("scenario"), str):  # pyright: ignore[reportUnknownMemberType]
                    raise ConfigError(f"{file}:{number}: no row with a scenario")
                yield row
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
