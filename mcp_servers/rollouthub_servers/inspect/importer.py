"""`InspectImporter`: the tasks of a folder, a file, a wheel or a repository, and packages made of those that load."""

import shutil
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from packaging.requirements import Requirement
from pydantic import JsonValue

from rollouthub.errors import ConfigError, HubError, TaskError, UsageError
from rollouthub.plugins.importers import (
    NO_SNAPSHOT,
    Candidate,
    ForeignFormat,
    Identity,
    ImportSource,
    Note,
    chosen_names,
    silent,
)
from rollouthub.plugins.lock import LockedDependency
from rollouthub.text import plain
from rollouthub.values import Frozen
from rollouthub_servers.foreign.copied_folder import copy_folder
from rollouthub_servers.foreign.copied_source import copied_source
from rollouthub_servers.foreign.import_settings import split_settings
from rollouthub_servers.foreign.package import ImportedPackage, is_part
from rollouthub_servers.foreign.packages import write_packages
from rollouthub_servers.foreign.partial_lock import lock_once, needs_of
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import running
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.inspect.inspect_env import InspectConfig
from rollouthub_servers.inspect.task_record import CODE, DATASETS, RECORD, SAMPLES, TaskRecord
from rollouthub_servers.inspect.task_source import (
    TaskFunction,
    declared_by,
    find_tasks,
    program_of,
    requirements_of,
    tasks_program,
)

_SECONDS, _PAGE = 300.0, 200
_README = """\
The Inspect task `{name}`: {count} samples, scored by {scorers}.

```bash
hub run {module}.py --model MODEL
```

Its code runs unchanged in a process of its own, without a network; Inspect's own evaluation plays it, and where that
asks a model, the agent is asked. Its own scorers score it. Not promised: {unpromised}.
"""


class InspectImport(Frozen):
    """Settings of the import (`--set`)."""

    args: dict[str, JsonValue] = {}
    """Arguments of the task's function."""
    samples: int = 10_000
    """Maximum number of samples to keep of a dataset."""
    inspect_ai: str | None = None
    """The library's requirement, such as `inspect_ai==0.3.278`, in place of the version that is chosen."""
    files: tuple[str, ...] = ()
    """Where SOURCE is one file: further files beside it, such as its dataset."""
    datasets: dict[str, str] = {}
    """Name of a data set → a folder with a copy of it, which `load_dataset` then reads."""
    without: tuple[str, ...] = ()
    """Distributions that have no wheel and are left out; code that uses one fails at that point."""
    requirements: tuple[str, ...] = ()
    """Further requirements, such as those that a folder has no project file for."""


@dataclass(frozen=True)
class _Code:
    """Where tasks are, and what they need."""

    folder: Path
    tasks: list[TaskFunction]
    requirements: tuple[str, ...]
    wheel: LockedDependency | None
    revision: str | None

    def lock(self, given: InspectImport) -> ForeignLock:
        """What is installed."""
        locked = lock_once((*self.requirements, *given.requirements), given.without)
        return locked.model_copy(update={"wheel": self.wheel})


@dataclass(frozen=True)
class _LoadedTask:
    """A task, and what loading it has shown."""

    task: TaskFunction
    candidate: Candidate
    record: TaskRecord | None = None
    submits: bool = False


class InspectImporter:
    """Reads tasks of Inspect."""

    environment = None
    about = ForeignFormat(
        summary="Tasks of Inspect (inspect_ai, inspect_evals): datasets, solvers, tools, scorers",
        item="task",
        sources={
            "folder": "a folder with functions that are decorated with @task, and what they read",
            "file": "one such file",
            "requirement": "a distribution with such functions, inspect_evals==VERSION",
            "git": "a commit of a repository of them, git+https://HOST/OWNER/NAME@COMMIT",
        },
        unpromised=(
            "that a solver which shuffles or draws does the same twice",
            "that calls of one message are one message of Inspect's: each is a message of its own there",
            "limits of tokens and cost, which an agent's model does not report",
            "settings of the model that a task names, such as a temperature: the run's are used",
            NO_SNAPSHOT,
        ),
        available=Path(__file__).with_name("available.toml"),
    )

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str, str], _LoadedTask] = {}
        """What loading a task has shown: an import looks, and then writes."""

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """The tasks of a source that its patterns name, each loaded once in a process of its own."""
        given, _, _ = split_settings(settings, InspectImport, InspectConfig)
        with _sourced(source, given, note) as code:
            names = chosen_names([task.id for task in code.tasks], source.patterns, self.about.item)
            return [each.candidate for each in self._examined(source, code, names, given, note)]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """A package for each chosen task: in `out`, or in a folder there of its name where there are several."""
        given, _, kept = split_settings(settings, InspectImport, InspectConfig)
        with _sourced(source, given, note) as code:
            found = self._examined(source, code, chosen, given, note)

            def write(each: _LoadedTask, folder: Path, own: Identity) -> Path:
                note(f"{each.task.id}: keeping its samples")
                return _write(each, code, given, kept, source, folder, own)

            return write_packages(
                source, {each.task.id: (each.candidate, each) for each in found}, out, identity, write
            )

    def _examined(
        self, source: ImportSource, code: _Code, names: Sequence[str], given: InspectImport, note: Note
    ) -> list[_LoadedTask]:
        settings = given.model_dump_json()
        new = [task for task in code.tasks if task.id in names and (source.text, settings, task.id) not in self._seen]
        if new:
            note("installing what the tasks need")
            for each in anyio.run(_looked_at, code, new, given, _copies(given), note):
                self._seen[source.text, settings, each.task.id] = each
        return [self._seen[source.text, settings, task.id] for task in code.tasks if task.id in names]


@contextmanager
def _sourced(source: ImportSource, given: InspectImport, note: Note) -> Generator[_Code]:
    """The code of a source: a wheel unpacked, a copy of a folder or a file, or a commit that is fetched once and kept.

    Raises:
        ConfigError: there are no tasks, or what is there cannot be copied.
    """
    if source.kind == "requirement":
        wheel = foreign_home().wheel(source.text)
        folder = foreign_home().unpacked(wheel, note)
        declared = list(map(str, needs_of(wheel, Requirement(source.text).extras, note)))
        requirements = requirements_of(declared, given.inspect_ai)
        yield _Code(folder, _all(folder, source), requirements, wheel, f"{wheel.name}=={wheel.version}")
        return
    with copied_source(source, given.files, note) as copied:
        tasks = _all(copied.folder, source, copied.only)
        requirements = requirements_of(declared_by(copied.folder), given.inspect_ai)
        yield _Code(copied.folder, tasks, requirements, None, copied.revision)


def _all(folder: Path, source: ImportSource, only: Path | None = None) -> list[TaskFunction]:
    if found := find_tasks(folder, only):
        return found
    raise ConfigError(f"there is no task in {source.text!r}, that is, no function decorated with @task")


def _copies(given: InspectImport) -> dict[str, str]:
    for name, folder in given.datasets.items():
        if not Path(folder).is_dir():
            raise ConfigError(f"datasets: {folder!r}, for {name!r}, is no folder")
    return {name: str(Path(folder).resolve()) for name, folder in given.datasets.items()}


async def _looked_at(
    code: _Code, tasks: Sequence[TaskFunction], given: InspectImport, datasets: Mapping[str, str], note: Note
) -> list[_LoadedTask]:
    """Load each task in a session of its own, and see what it has; what stops that is the reason why it is refused."""
    lock = await anyio.to_thread.run_sync(code.lock, given)
    program = await anyio.to_thread.run_sync(
        tasks_program, "Inspect's tasks", lock, code.folder, None, datasets, _modules(given)
    )
    found: list[_LoadedTask] = []
    async with running(program) as runtime:
        for task in tasks:
            note(f"{task.id}: loading it")
            place = {"folder": str(code.folder), **task.place(given.args, is_installed=code.wheel is not None)}
            try:
                async with runtime.session() as session:
                    answer = await session.ask("describe", seconds=_SECONDS, place=place)
            except TaskError as error:
                answer = {"refused": plain(str(error), 600)}
            found.append(_judged(task, answer, code, given))
    return found


def _modules(given: InspectImport) -> tuple[str, ...]:
    return tuple(name.replace("-", "_") for name in given.without)


def _judged(task: TaskFunction, answer: Any, code: _Code, given: InspectImport) -> _LoadedTask:
    """A task by what its driver says of it."""
    if "refused" in answer:
        return _LoadedTask(task, Candidate(id=task.id, reasons=(plain(str(answer["refused"]), 600),)))
    count, tools, scorers = int(answer["count"]), dict(answer["tools"]), [str(each) for each in answer["scorers"]]
    submits = tools.get("submit") == ["answer"]
    reasons = [plain(str(reason), 600) for reason in answer["reasons"]]
    if taken := HUB_TOOLS.intersection(tools) - ({"submit"} if submits else set()):
        reasons.append(f"tools: {min(taken)!r} is the name of one of the hub's own")
    if not is_part(task.id):
        reasons.append(f"no folder can be named {plain(task.id, 80)!r}")
    facts: dict[str, JsonValue] = {
        "tasks": min(count, given.samples),
        "solver": plain(str(answer["solver"]), 120),
        "scorer": plain(", ".join(scorers), 120),
        "tools": plain(", ".join(sorted(tools)), 120),
    }
    record = TaskRecord(
        name=task.id,
        place=task.place(given.args, is_installed=code.wheel is not None),
        count=min(count, given.samples),
        has_ids=bool(answer["has_ids"]),
        scorers=tuple(scorers),
        code=None if code.wheel is not None else CODE,
        absent=_modules(given),
        datasets={name: f"{DATASETS}/{number}" for number, name in enumerate(sorted(given.datasets))},
    )
    unpromised = tuple(_unpromised(count, given, scorers, submits))
    candidate = Candidate(id=task.id, reasons=tuple(reasons), facts=facts, unpromised=unpromised)
    return _LoadedTask(task, candidate, record, submits)


def _unpromised(count: int, given: InspectImport, scorers: Sequence[str], submits: bool) -> Iterator[str]:
    """What its card says cannot be promised."""
    if count > given.samples:
        yield f"more than the first {given.samples:,} of {count:,} samples"
    if len(scorers) > 1:
        yield f"that {scorers[0]}, its first scorer, says all: others weigh nothing (`score=` names another)"
    if submits:
        yield "further attempts after an answer was submitted: that ends the episode"


async def _samples(program: ForeignProgram, record: TaskRecord, file: Path) -> None:
    """Write the samples, as the task's own code gives them."""
    async with running(program) as runtime, runtime.session() as session:
        with file.open("w", encoding="utf-8") as lines:
            for start in range(0, record.count, _PAGE):
                most = min(_PAGE, record.count - start)
                texts = await session.ask("rows", seconds=_SECONDS, start=start, count=most)
                lines.writelines(f"{'null' if text is None else text}\n" for text in texts)


def _write(
    found: _LoadedTask,
    code: _Code,
    given: InspectImport,
    kept: Mapping[str, JsonValue],
    source: ImportSource,
    folder: Path,
    identity: Identity,
) -> Path:
    record, lock = found.record, code.lock(given)
    assert record is not None
    assert identity.name is not None
    data = folder / "data"
    data.mkdir()
    if record.code is not None:
        shutil.copytree(code.folder, data / CODE)
    for name, place in record.datasets.items():
        copy_folder(Path(given.datasets[name]), data / place)
    lock.write(data, CODE, *record.datasets.values())
    (data / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
    try:
        anyio.run(_samples, program_of(data.absolute(), record, lock), record, data / SAMPLES)
    except HubError as error:
        raise UsageError(f"its samples cannot be kept: {error}") from error
    unpromised = (*InspectImporter.about.unpromised, *found.candidate.unpromised)
    return (
        ImportedPackage(
            name=identity.name,
            license=identity.license,
            source=source.name,
            title=f"Inspect task {record.name}",
            base=f"rollouthub_servers.inspect:{'InspectSubmit' if found.submits else 'Inspect'}",
            config="InspectConfig",
            settings=kept,
            ending="task",
            tags=("inspect",),
            revision=code.revision,
            changes="Played unchanged, by Inspect's own evaluation; its targets and its scorers stay with the hub.",
            unpromised=unpromised,
        )
        .with_readme(
            _README,
            name=record.name,
            count=f"{record.count:,}",
            scorers=", ".join(record.scorers),
            unpromised="; ".join(unpromised),
        )
        .write(folder)
    )
