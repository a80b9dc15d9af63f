"""`HarborTask`: a task's folder, with its settings read and checked."""

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rollouthub.errors import DataError
from rollouthub.sandbox import File
from rollouthub_servers.terminal.harbor.compose import OWN_VARIABLES, Compose, read_compose
from rollouthub_servers.terminal.harbor.dataset import TASK_FILE
from rollouthub_servers.terminal.harbor.settings import Artifacts, StepSection, TaskSettings
from rollouthub_servers.terminal.harbor.task_files import folder_digest, folder_files
from rollouthub_servers.terminal.harbor.task_keys import drop, is_describing, key_at, said

INSTRUCTION, TEST_SCRIPT, SOLVE_SCRIPT = "instruction.md", "test.sh", "solve.sh"
_CANARY = re.compile(r"\s*(<!--.*canary.*-->|#.*canary.*)\s*", re.IGNORECASE)
_METADATA = ("difficulty", "category")
"""Keys of `[metadata]` that may be shown; others could explain the solution."""


@dataclass(frozen=True)
class Step:
    """One instruction with its tests: a usual task has one step, a multi-step task several."""

    name: str | None
    """None in a task without `[[steps]]`."""
    section: StepSection
    """The step's section; in a task without `[[steps]]`, one made of the task's own sections."""
    folder: Path


@dataclass(frozen=True)
class HarborTask:
    """A task in the Harbor format."""

    id: str
    folder: Path
    settings: TaskSettings
    ignored: tuple[str, ...] = ()
    """Keys of `task.toml` that were ignored, because they only describe the task or the user said so."""
    _composes: dict[Any, Compose] = field(default_factory=dict[Any, Compose], compare=False, repr=False)

    @property
    def file(self) -> Path:
        """Path of its `task.toml`."""
        return self.folder / TASK_FILE

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """The steps in order; one step if the task has no `[[steps]]`."""
        settings = self.settings
        if not settings.steps:
            whole = StepSection(name="task", agent=settings.agent, verifier=settings.verifier)
            return (Step(None, whole, self.folder),)
        return tuple(Step(step.name, step, self.folder / "steps" / step.name) for step in settings.steps)

    @property
    def is_multi_step(self) -> bool:
        """Whether the task has `[[steps]]`."""
        return bool(self.settings.steps)

    def instruction(self, step: Step) -> str:
        """The instruction for the agent, without the canary lines that mark it as evaluation data.

        Raises:
            DataError: the file is missing, empty or not UTF-8.
        """
        file = step.folder / INSTRUCTION
        try:
            lines = file.read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"the instruction cannot be read: {error}", file) from error
        while lines and (not lines[0].strip() or _CANARY.fullmatch(lines[0])):
            del lines[0]
        text = "\n".join(lines).strip()
        if not text:
            raise DataError("the instruction is empty", file)
        return text

    def tests(self, step: Step) -> list[File]:
        """The files for `/tests`: the task's, overridden by the step's.

        Raises:
            DataError: a link leads out of the task.
        """
        files = {file.path: file for file in folder_files(self.folder / "tests", self.folder)}
        if step.name is not None:
            files |= {file.path: file for file in folder_files(step.folder / "tests", self.folder)}
        return list(files.values())

    def solution(self, step: Step) -> list[File]:
        """The files of the reference solution: the step's, else the task's; empty if there is none.

        Raises:
            DataError: a link leads out of the task.
        """
        own = step.folder / "solution"
        folder = own if own.is_dir() else self.folder / "solution"
        files = folder_files(folder, self.folder)
        return files if any(file.path == SOLVE_SCRIPT for file in files) else []

    def workdir_files(self, step: Step) -> list[File]:
        """The files that are copied to the working directory before a step."""
        return [] if step.name is None else folder_files(step.folder / "workdir", self.folder)

    def compose(self, place: str, caller: Mapping[str, str]) -> Compose:
        """The services that a compose file in `environment` or `tests` names; none where there is no such file.

        `caller` are the user's variables that the task may read.
        """
        key = (place, tuple(sorted(caller.items())))
        if key not in self._composes:
            env = {name: text for name, text in self.settings.environment.env.items() if "${" not in text}
            self._composes[key] = read_compose(self.folder, place, {**caller, **env, **OWN_VARIABLES})
        return self._composes[key]

    def artifacts(self, step: Step) -> Artifacts:
        """The paths that are copied to the verifier."""
        return self.settings.artifacts + step.section.artifacts

    @cached_property
    def digest(self) -> str:
        """Digest of all files of the task."""
        return folder_digest(self.folder)

    @property
    def shown_metadata(self) -> dict[str, Any]:
        """The metadata that may be shown."""
        known = self.settings.metadata
        return {key: known[key] for key in _METADATA if isinstance(known.get(key), str)}


def has_solutions(folder: Path) -> bool:
    """Whether each step of the task in a folder has a `solve.sh`, its own or the task's.

    Raises:
        DataError: the task's settings cannot be read.
    """
    whole = folder / "solution"
    steps: list[dict[str, Any]] = _settings(folder / TASK_FILE).get("steps") or []
    own = [folder / "steps" / str(step.get("name")) / "solution" for step in steps] or [whole]
    return all(((each if each.is_dir() else whole) / SOLVE_SCRIPT).is_file() for each in own)


class UnknownKeys(DataError):
    """A `task.toml` that is valid except for unknown keys."""

    def __init__(self, problem: str, file: Path, keys: tuple[str, ...]) -> None:
        self.keys = keys
        super().__init__(problem, file)


def load_task(task_id: str, folder: Path, ignore: Collection[str] = ()) -> HarborTask:
    """Read a task's folder; `ignore` names keys of its `task.toml` that are ignored.

    Raises:
        DataError: names the file and the invalid keys.
    """
    file = folder / TASK_FILE
    values = _settings(file)
    left_out = [key for key in ignore if drop(values, tuple(key.split(".")))]
    problems: list[Any] = []
    for _ in range(2):
        try:
            return HarborTask(task_id, folder, TaskSettings.model_validate(values), tuple(left_out))
        except ValidationError as error:
            problems = error.errors(include_url=False)
        describing = [problem["loc"] for problem in problems if is_describing(problem)]
        if not describing:
            break
        left_out += [place for place in dict.fromkeys(map(key_at, describing)) if place not in left_out]
        for place in describing:
            drop(values, place)
    problem = "; ".join(said(each, values) for each in problems)
    if all(each["type"] == "extra_forbidden" for each in problems):
        raise UnknownKeys(problem, file, tuple(dict.fromkeys(key_at(each["loc"]) for each in problems)))
    raise DataError(problem, file)


def _settings(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_bytes().decode())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DataError(f"cannot be read: {error}", file) from error
