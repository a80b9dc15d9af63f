"""`Tau2Importer`: which tasks of a checkout of τ²-bench can be played here, and packages made of them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio.from_thread
from pydantic import JsonValue, ValidationError

from rollouthub.errors import ConfigError, invalid_fields
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.importers import NO_SNAPSHOT, Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub_servers.foreign.package import ImportedPackage, package_name
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import foreign_home, lock_requirements
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.new_folder import new_folder
from rollouthub_servers.tau2.checkout import CODE, Checkout, FoundTask, program_of
from rollouthub_servers.tau2.row import Tau2Row, write_rows
from rollouthub_servers.tau2.tau2_environment import Tau2Config

_REHEARSAL_SECONDS = 120.0
_README = """\
{count} tasks of τ²-bench, from {source}; its own tools, policy and evaluator.

```bash
hub run {module}.py --agent oracle --set user=scripted --set judge=none --skip-bad-rows
hub run {module}.py --model MODEL --role user=MODEL --role judge=MODEL
```

| domain | tasks |
| --- | --- |
{table}
{failing}"""
_FAILING = """
The own actions of these tasks do not earn 1 from τ²-bench's own evaluator, so no reference is kept of them:

"""


class Tau2Importer:
    """Reads τ²-bench."""

    environment = None
    about = ForeignFormat(
        summary="Customer service with a simulated user who has tools, too (τ²-bench)",
        item="task",
        sources={"folder": "a checkout (src/tau2 and data/tau2)"},
        unpromised=(
            "that a user played by a model says the same twice",
            "that assertions in words are judged alike by two judges",
            "voices, and an agent that works alone on a ticket: only conversations in text are played",
            NO_SNAPSHOT,
        ),
        available=Path(__file__).with_name("available.toml"),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """Every task of every domain."""
        check_config(Tau2Config, {"data": "", **settings}, "environment 'tau2'", "--set")
        checkout = Checkout.of(source.folder)
        found: list[Candidate] = []
        for domain in checkout.domains:
            refused = checkout.refusals(domain)
            for each in checkout.tasks(domain):
                row = _row(each)
                reasons = refused if isinstance(row, Tau2Row) else (row,)
                judged = isinstance(row, Tau2Row) and bool(row.assertions)
                if judged and settings.get("judge") == "none":
                    reasons = (*reasons, "evaluation_criteria.nl_assertions: with judge=none no judge scores them")
                facts: dict[str, JsonValue] = {"domain": domain, "judge": judged}
                found.append(Candidate(id=each.id, reasons=reasons, facts=facts))
        if not found:
            raise ConfigError(f"{source.text!r} holds no tasks of τ²-bench")
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
        """Copy the code and the databases, play every task's reference actions once, and write one environment."""
        wanted = set(chosen)
        if not wanted:
            raise ConfigError(f"none of the tasks in {source.text!r} can be played, so there is nothing to write")
        checkout = Checkout.of(source.folder)
        domains = [each for each in checkout.domains if any(name.startswith(f"{each}/") for name in wanted)]
        found = [each for domain in domains for each in checkout.tasks(domain) if each.id in wanted]
        kept = {name: value for name, value in settings.items() if name != "data"}
        config: Tau2Config = check_config(Tau2Config, {"data": "", **kept}, "environment 'tau2'", "--set")
        lock = lock_requirements(checkout.requirements, note)
        with new_folder(out) as partial:
            data = partial / "data"
            data.mkdir()
            checkout.keep(data, domains)
            lock.write(data, CODE)
            python, way = foreign_home().python(lock.dependencies, note), config.retrieval
            program = program_of(data, python, domains, retrieval=way, call_seconds=_REHEARSAL_SECONDS)
            rows = list(_rehearsed(program, found, note))
            write_rows(data, rows)
            name = package_name(identity, out.resolve().name)
            file = _package(name, identity.license, source, checkout.revision, kept, rows).write(partial)
        return [out / file.name]


def _row(found: FoundTask) -> Tau2Row | str:
    """The row of a task, or why it is none."""
    row = Tau2Row(id=found.id, domain=found.domain, splits=found.splits, task=found.task)
    try:
        _ = row.read
    except ValidationError as error:
        return invalid_fields(error)
    return row


def _rehearsed(program: ForeignProgram, found: Sequence[FoundTask], note: Note) -> Iterator[Tau2Row]:
    """The rows, with what τ²-bench's own evaluator says of the task's own actions."""
    runtime = ForeignRuntime(program)
    try:
        with anyio.from_thread.start_blocking_portal() as portal:
            for number, each in enumerate(found):
                if number % 100 == 0:
                    note(f"trying the actions of task {number + 1} of {len(found)}")
                row = _row(each)
                assert isinstance(row, Tau2Row)
                verdict = portal.call(_rehearse, runtime, row)
                if verdict["refused"] is not None:
                    raise ConfigError(f"{row.id}: {verdict['refused']}")
                yield row.model_copy(update={"reference_fails": verdict["why"]})
    finally:
        runtime.close()


async def _rehearse(runtime: ForeignRuntime, row: Tau2Row) -> dict[str, Any]:
    async with runtime.session() as session:
        return await session.ask("rehearse", seconds=2 * _REHEARSAL_SECONDS, domain=row.domain, task=row.task)


def _package(
    name: str,
    terms: str | None,
    source: ImportSource,
    revision: str | None,
    kept: Mapping[str, JsonValue],
    rows: Sequence[Tau2Row],
) -> ImportedPackage:
    counts = Counter(row.domain for row in rows)
    named = "\n".join(f"- `{row.id}`: {row.reference_fails[:200]}" for row in rows if row.reference_fails is not None)
    return ImportedPackage(
        name=name,
        license=terms,
        source=source.name,
        title=f"{len(rows):,} tasks of τ²-bench",
        base="rollouthub_servers.tau2:Tau2",
        config="Tau2Config",
        settings=kept,
        tags=("tools", "customer-service", "tau2"),
        revision=revision,
        source_license="MIT",
        unpromised=Tau2Importer.about.unpromised,
    ).with_readme(
        _README,
        count=f"{len(rows):,}",
        table="\n".join(f"| `{domain}` | {count:,} |" for domain, count in counts.items()),
        failing=f"{_FAILING}{named}\n" if named else "",
    )
