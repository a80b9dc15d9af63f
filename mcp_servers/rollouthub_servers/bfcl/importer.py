"""`BfclImporter`: lists the rows of BFCL that can be played here, and writes packages of them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import anyio.from_thread
from pydantic import JsonValue, ValidationError

from rollouthub.errors import ConfigError, invalid_fields
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.importers import NO_SNAPSHOT, Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub_servers.bfcl.bfcl_source import BfclSource, program_of
from rollouthub_servers.bfcl.categories import FORMAT_SENSITIVITY, PLAYED, PREFIX, REFUSED, file_of
from rollouthub_servers.bfcl.environment import BfclConfig
from rollouthub_servers.bfcl.row import BfclRow, RowWriter
from rollouthub_servers.foreign.package import ImportedPackage, package_name
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignSession
from rollouthub_servers.new_folder import new_folder

_PAGE = 25
_PAGE_SECONDS = 300.0
_README = """\
{count} rows of the Berkeley Function-Calling Leaderboard, version 4, from {source}; its code checks them.

```bash
hub run {module}.py --agent oracle
hub run {module}.py --split multi_turn_base --model MODEL
```

Splits are BFCL's categories; `test` is all of them.

| category | rows |
| --- | --- |
{table}
{failing}"""
_FAILING = """
The own answer of these rows does not pass BFCL's own checker, or cannot be played, so no reference is kept of them:

"""


class BfclImporter:
    """Imports rows of BFCL v4."""

    environment = None
    about = ForeignFormat(
        summary="Function calls, one turn or many (Berkeley Function-Calling Leaderboard, BFCL v4)",
        item="row",
        sources={
            "requirement": "its wheel: bfcl-eval==2026.3.23",
            "folder": "a checkout that holds bfcl_eval",
        },
        unpromised=(
            "that a single turn ends with the first message that makes calls: all calls of the episode are checked",
            "that rows with memory lose the conversation between writing and asking, as BFCL's own loop makes them",
            NO_SNAPSHOT,
        ),
        available=Path(__file__).with_name("available.toml"),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """List the rows of every category, with reasons for those that cannot be played."""
        check_config(BfclConfig, {"data": "", **settings}, "environment 'bfcl'", "--set")
        data = BfclSource.of(source, note).data
        found = [Candidate(id=row, facts={"category": each}) for each in PLAYED for row in _ids(data, each)]
        for refused in REFUSED:
            file = f"{PREFIX}{refused.file}.json"
            reason = f"{file}: {refused.reason}"
            found += [
                Candidate(id=row.replace(refused.file, refused.category, 1), reasons=(reason,))
                for row in _listed(data / file)
            ]
        name = FORMAT_SENSITIVITY.category
        if (data / f"{PREFIX}{name}.json").is_file():
            found.append(Candidate(id=name, reasons=(f"{PREFIX}{name}.json: {FORMAT_SENSITIVITY.reason}",)))
        if not any(candidate.runs for candidate in found):
            raise ConfigError(f"{source.text!r} holds no rows of BFCL v4 ({PREFIX}simple_python.json and so on)")
        return found

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """Prepare the chosen rows with BFCL's own code, and write one environment with them."""
        wanted = set(chosen)
        if not wanted:
            raise ConfigError(f"none of the rows in {source.text!r} can be played, so there is nothing to write")
        found = BfclSource.of(source, note)
        lock = found.locked(note)
        kept = {name: value for name, value in settings.items() if name != "data"}
        categories = [each for each in PLAYED if wanted.intersection(_ids(found.data, each))]
        program = program_of(found.folder, lock, note, call_seconds=_PAGE_SECONDS, is_import=True)
        with new_folder(out) as partial:
            data = partial / "data"
            data.mkdir()
            failing: dict[str, str] = {}
            counts = RowWriter(data).write(_prepared(program, categories, wanted, failing, note))
            found.keep(data, lock)
            name = package_name(identity, out.resolve().name)
            package = _package(name, identity.license, source, found.revision, kept, counts, failing)
            file = package.write(partial)
        return [out / file.name]


def _ids(data: Path, category: str) -> list[str]:
    names = _listed(data / file_of(category))
    if category.startswith("memory_"):
        return [name.replace("memory", category, 1) for name in names]
    return names


def _listed(file: Path) -> list[str]:
    """The ids of the rows in a file; empty if the file does not exist.

    Raises:
        ConfigError: a line is not a row of BFCL.
    """
    if not file.is_file():
        return []
    names: list[str] = []
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            try:
                names.append(str(json.loads(line)["id"]))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ConfigError(f"{file}:{number}: no row of BFCL: {error!r}"[:400]) from error
    return names


def _prepared(
    program: ForeignProgram, categories: Sequence[str], wanted: set[str], failing: dict[str, str], note: Note
) -> Iterator[BfclRow]:
    """The wanted rows as BFCL's code prepares them; `failing` gets the id and reason of each whose own answer fails."""
    runtime = ForeignRuntime(program)
    try:
        with (
            anyio.from_thread.start_blocking_portal() as portal,
            portal.wrap_async_context_manager(runtime.session()) as session,
        ):
            for category in categories:
                note(f"preparing {category}")
                start = 0
                while texts := portal.call(_page, session, category, start):
                    start += _PAGE
                    for text in texts:
                        row = _read(text)
                        if row.id in wanted:
                            if row.reference_fails is not None:
                                failing[row.id] = row.reference_fails
                            yield row
    finally:
        runtime.close()


async def _page(session: ForeignSession, category: str, start: int) -> list[str]:
    return await session.ask("prepare", seconds=_PAGE_SECONDS, category=category, start=start, count=_PAGE)


def _read(text: str) -> BfclRow:
    try:
        return BfclRow.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(f"BFCL gave a row that cannot be played: {invalid_fields(error)}: {text[:200]}") from error


def _package(
    name: str,
    terms: str | None,
    source: ImportSource,
    revision: str | None,
    kept: Mapping[str, JsonValue],
    counts: Counter[str],
    failing: Mapping[str, str],
) -> ImportedPackage:
    total = sum(counts.values())
    table = "\n".join(f"| `{category}` | {count:,} |" for category, count in counts.items())
    named = "\n".join(f"- `{row}`: {why[:200]}" for row, why in failing.items())
    return ImportedPackage(
        name=name,
        license=terms,
        source=source.name,
        title=f"{total:,} rows of BFCL v4",
        base="rollouthub_servers.bfcl:Bfcl",
        config="BfclConfig",
        settings=kept,
        tags=("tools", "function-calling", "bfcl"),
        determinism="full",
        revision=revision,
        source_license="Apache-2.0",
        unpromised=BfclImporter.about.unpromised,
    ).with_readme(_README, count=f"{total:,}", table=table, failing=f"{_FAILING}{named}\n" if failing else "")
