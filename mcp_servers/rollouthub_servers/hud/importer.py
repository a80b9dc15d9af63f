"""`HudImporter`: the environments of a folder, a file or a repository, and packages made of those that play."""

import shutil
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from pydantic import JsonValue

from rollouthub.errors import ConfigError, HubError, TaskError, UsageError
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.importers import NO_SNAPSHOT, Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub.text import plain
from rollouthub.values import Frozen
from rollouthub_servers.foreign.copied_source import copied_source
from rollouthub_servers.foreign.package import ImportedPackage, is_part
from rollouthub_servers.foreign.packages import write_packages
from rollouthub_servers.foreign.partial_lock import lock_once
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock
from rollouthub_servers.foreign.runtime import running
from rollouthub_servers.foreign.tool_names import HUB_TOOLS
from rollouthub_servers.hud.hud_record import CODE, RECORD, RELEASE, TASKS, HudRecord, hud_program

_SECONDS, _PAGE = 300.0, 200
_ROWS = ("tasks.json", "tasks.jsonl")
_README = """\
The HUD environment `{name}`: {count} tasks.

```bash
hub run {module}.py --model MODEL
```

Its code runs unchanged in a process of its own, without a network; tasks are started and graded as HUD's protocol does.
Not promised: {unpromised}.
"""


class HudImport(Frozen):
    """Settings of the import (`--set`)."""

    hud: str = RELEASE
    """The SDK's requirement, such as `hud-python==0.6.10`."""
    tasks: tuple[str, ...] = ()
    """Files of tasks (.json, .jsonl) in the folder; by default `tasks.json` and `tasks.jsonl`, where they are."""
    files: tuple[str, ...] = ()
    """Where SOURCE is one file: further files beside it."""
    without: tuple[str, ...] = ()
    """Distributions that have no wheel and are left out; code that uses one fails at that point."""
    requirements: tuple[str, ...] = ()
    """Further requirements of the environment's code."""


@dataclass(frozen=True)
class _LoadedEnvironment:
    """An environment, and what loading it has shown."""

    candidate: Candidate
    record: HudRecord


@dataclass(frozen=True)
class _HudCode:
    """Where environments are, and what they need."""

    folder: Path
    record: HudRecord
    """Of all of them: it names none."""
    lock: ForeignLock
    revision: str | None


class HudImporter:
    """Reads environments of HUD v6."""

    environment = None
    about = ForeignFormat(
        summary="Environments of HUD v6: templates with a prompt and a grade, tools of MCP servers",
        item="environment",
        sources={
            "folder": "a folder with an Environment and its tasks (env.py, tasks.py, tasks.json)",
            "file": "one such file of Python",
            "git": "a commit of a repository of them, git+https://HOST/OWNER/NAME@COMMIT#subdirectory=FOLDER",
        },
        unpromised=("that a task begins alike twice, as a template takes no seed", NO_SNAPSHOT),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """The environments of a source, each begun and graded once in a process of its own."""
        given: HudImport = check_config(HudImport, dict(settings), "the import", "--set")
        with _sourced(source, given, note) as code:
            return [each.candidate for each in anyio.run(_looked_at, code, note)]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """A package for each chosen environment: in `out`, or in a folder there of its name if there are several."""
        given: HudImport = check_config(HudImport, dict(settings), "the import", "--set")
        with _sourced(source, given, note) as code:
            found = [each for each in anyio.run(_looked_at, code, note) if each.candidate.id in chosen]

            def write(each: _LoadedEnvironment, folder: Path, own: Identity) -> Path:
                return _write(each, code, source, folder, own)

            return write_packages(
                source, {each.candidate.id: (each.candidate, each) for each in found}, out, identity, write
            )


@contextmanager
def _sourced(source: ImportSource, given: HudImport, note: Note) -> Generator[_HudCode]:
    with copied_source(source, (*given.files, *(given.tasks if source.kind == "file" else ())), note) as copied:
        rows = given.tasks or tuple(name for name in _ROWS if (copied.folder / name).is_file())
        if missing := [name for name in rows if not (copied.folder / name).is_file()]:
            raise ConfigError(f"tasks: there is no file {missing[0]!r} in {source.text!r}")
        note("installing what the environments need")
        lock = lock_once((given.hud, *given.requirements), given.without)
        absent = tuple(name.replace("-", "_") for name in given.without)
        only = "." if copied.only is None else copied.only.as_posix()
        yield _HudCode(copied.folder, HudRecord(name="", source=only, rows=rows, absent=absent), lock, copied.revision)


async def _looked_at(code: _HudCode, note: Note) -> list[_LoadedEnvironment]:
    """Load a source, and see what each of its environments has."""
    program = await anyio.to_thread.run_sync(hud_program, code.record, code.folder, code.lock)
    async with running(program) as runtime:
        async with runtime.session() as session:
            names: Any = await session.ask("names", seconds=_SECONDS)
        if "refused" in names:
            raise ConfigError(f"the source does not load: {plain(str(names['refused']), 600)}")
        if not names:
            raise ConfigError("there is no environment, that is, no `Environment` in any of its modules")
        found: list[_LoadedEnvironment] = []
        for name in names:
            note(f"{name}: beginning its first task")
            try:
                async with runtime.session() as session:
                    answer = await session.ask("describe", seconds=_SECONDS, name=name)
            except TaskError as error:
                answer = {"reasons": [str(error)], "count": 0, "templates": [], "tools": []}
            found.append(_judged(str(name), answer, code.record))
        return found


def _judged(name: str, answer: Any, record: HudRecord) -> _LoadedEnvironment:
    """An environment by what its driver says of it."""
    tools = [str(tool) for tool in answer["tools"]]
    reasons = [plain(str(reason), 600) for reason in answer["reasons"]]
    if taken := HUB_TOOLS.intersection(tools):
        reasons.append(f"tools: {min(taken)!r} is the name of one of the hub's own")
    if not is_part(name):
        reasons.append(f"no folder can be named {plain(name, 80)!r}")
    count = int(answer["count"])
    facts: dict[str, JsonValue] = {
        "tasks": count,
        "templates": plain(", ".join(map(str, answer["templates"])), 120),
        "tools": plain(", ".join(tools), 120),
    }
    return _LoadedEnvironment(
        Candidate(id=name, reasons=tuple(reasons), facts=facts),
        record.model_copy(update={"name": name, "count": count}),
    )


async def _rows(program: ForeignProgram, count: int, file: Path) -> None:
    """Write the tasks, as the environment's own code gives them."""
    async with running(program) as runtime, runtime.session() as session:
        with file.open("w", encoding="utf-8") as lines:
            for start in range(0, count, _PAGE):
                texts = await session.ask("rows", seconds=_SECONDS, start=start, count=min(_PAGE, count - start))
                lines.writelines(f"{text}\n" for text in texts)


def _write(found: _LoadedEnvironment, code: _HudCode, source: ImportSource, folder: Path, identity: Identity) -> Path:
    record = found.record
    assert identity.name is not None
    data = folder / "data"
    data.mkdir()
    shutil.copytree(code.folder, data / CODE)
    code.lock.write(data, CODE)
    (data / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
    try:
        anyio.run(_rows, hud_program(record, (data / CODE).absolute(), code.lock), record.count, data / TASKS)
    except HubError as error:
        raise UsageError(f"its tasks cannot be kept: {error}") from error
    unpromised = HudImporter.about.unpromised
    return (
        ImportedPackage(
            name=identity.name,
            license=identity.license,
            source=source.name,
            title=f"HUD environment {record.name}",
            base="rollouthub_servers.hud:Hud",
            config="HudConfig",
            settings={},
            ending="env",
            tags=("hud",),
            revision=code.revision,
            changes="Played unchanged; its tasks' arguments and its grading stay with the hub.",
            unpromised=unpromised,
        )
        .with_readme(_README, name=record.name, count=f"{record.count:,}", unpromised="; ".join(unpromised))
        .write(folder)
    )
