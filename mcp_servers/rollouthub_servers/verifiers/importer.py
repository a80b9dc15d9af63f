"""`VerifiersImporter`: the environments of a folder, a wheel or a repository, and packages made of those that load."""

import shutil
import tempfile
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
from pydantic import JsonValue

from rollouthub.environment import EnvironmentConfig
from rollouthub.errors import ConfigError, HubError, UsageError
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.components import component
from rollouthub.plugins.importers import NO_SNAPSHOT, Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub.plugins.lock import LockedDependency
from rollouthub.text import plain
from rollouthub_servers.foreign.package import ImportedPackage, is_part
from rollouthub_servers.foreign.packages import write_packages
from rollouthub_servers.foreign.partial_lock import lock_once
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import running
from rollouthub_servers.verifiers.env_record import CODE, DATASETS, RECORD, ROWS, EnvRecord, Judge
from rollouthub_servers.verifiers.env_source import EnvFolder, find_envs, ignored, in_wheel, program_of

_SECONDS, _PAGE = 600.0, 200
_ENDLESS = 1_000
"""Number of rows to keep of an endless data set."""
_JUDGED = "its rubric asks a judge, and none is given to it here"
_README = """\
The environment `{name}` of the library verifiers: {count}.

```bash
hub run {module}.py --model MODEL
```

Its code runs unchanged in a process of its own, without a network; the library's own loop plays it, and its own rubric
scores it. Not promised: {unpromised}.
"""


class VerifiersImport(EnvironmentConfig):
    """Settings of the import (`--set`)."""

    args: dict[str, JsonValue] = {}
    """Arguments of `load_environment`, or of the taskset's configuration."""
    rows: int = 10_000
    """Maximum number of rows to keep of each data set; endless data sets need a number, too."""
    judge: Judge = "refuse"
    """`none` imports environments whose rubric asks a judge: what the judge would say has no score."""
    verifiers: str | None = None
    """The library's requirement, such as `verifiers==0.1.14`, in place of the version that is chosen."""
    datasets: dict[str, str] = {}
    """Name of a data set → a folder with a copy of it, which `load_dataset` then reads."""
    without: tuple[str, ...] = ()
    """Distributions that have no wheel and are left out; code that uses one fails at that point."""
    requirements: tuple[str, ...] = ()
    """Further requirements, such as those that a project does not declare."""


@dataclass(frozen=True)
class _LoadedEnv:
    """An environment, and what loading it has shown."""

    env: EnvFolder
    candidate: Candidate
    record: EnvRecord | None = None
    lock: ForeignLock | None = None
    is_group: bool = False


class VerifiersImporter:
    """Reads environments of the library verifiers."""

    environment = None
    about = ForeignFormat(
        summary="Environments of Prime Intellect's library verifiers: one turn or many, tools, rubrics",
        item="environment",
        sources={
            "folder": "an environment's folder (pyproject.toml and its module), or one that holds several",
            "requirement": "an environment's distribution, NAME==VERSION",
            "git": "a commit of a repository of them, git+https://HOST/OWNER/NAME@COMMIT",
        },
        unpromised=(
            "that an environment draws the same random numbers in every version of what it needs",
            "that calls of one message meet each other: the environment runs them one after the other",
            NO_SNAPSHOT,
        ),
        available=Path(__file__).with_name("available.toml"),
    )

    def __init__(self) -> None:
        self._seen: dict[tuple[Path, str], _LoadedEnv] = {}
        """What loading an environment has shown: an import looks, and then writes."""

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """Every environment of a source, each loaded once in a process of its own."""
        given: VerifiersImport = check_config(VerifiersImport, dict(settings), "the import", "--set")
        with _sourced(source, note) as (envs, wheel, _):
            return [self._examined(env, wheel, given, note).candidate for env in envs]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """A package for each chosen environment: in `out`, or in a folder there of its name where there are several."""
        given: VerifiersImport = check_config(VerifiersImport, dict(settings), "the import", "--set")
        with _sourced(source, note) as (envs, wheel, revision):
            found = [self._examined(env, wheel, given, note) for env in envs if env.name in chosen]

            def write(each: _LoadedEnv, folder: Path, own: Identity) -> Path:
                note(f"{each.env.name}: keeping its rows")
                return _write(each, given, source, revision, folder, own)

            return write_packages(
                source, {each.env.name: (each.candidate, each) for each in found}, out, identity, write
            )

    def _examined(
        self, env: EnvFolder, wheel: LockedDependency | None, given: VerifiersImport, note: Note
    ) -> _LoadedEnv:
        key = env.folder, given.model_dump_json()
        if key not in self._seen:
            self._seen[key] = _examined(env, wheel, given, note)
        return self._seen[key]


@contextmanager
def _sourced(
    source: ImportSource, note: Note
) -> Generator[tuple[list[EnvFolder], LockedDependency | None, str | None]]:
    """The environments of a source, the wheel that it is, and its revision; a commit is fetched once, and kept."""
    if source.kind == "requirement":
        wheel = foreign_home().wheel(source.text)
        yield [in_wheel(foreign_home().unpacked(wheel, note), wheel.name)], wheel, f"{wheel.name}=={wheel.version}"
        return
    if source.kind == "git":
        folder = Path(component("foreign_checkout")(source.text, note))
        yield _all(folder, source), None, source.text.partition("#")[0].rpartition("@")[2]
        return
    yield _all(source.folder, source), None, None


def _all(folder: Path, source: ImportSource) -> list[EnvFolder]:
    if found := find_envs(folder):
        return found
    raise ConfigError(f"there is no environment in {source.text!r}, that is, no folder with a pyproject.toml")


def _examined(env: EnvFolder, wheel: LockedDependency | None, given: VerifiersImport, note: Note) -> _LoadedEnv:
    """Load an environment, and see what it has; whatever stops that is the reason why it is refused."""
    try:
        kind = env.kind()
        requirements = (*env.requirements(kind, given.verifiers), *given.requirements)
        note(f"{env.name}: loading it")
        lock = lock_once(requirements, given.without).model_copy(update={"wheel": wheel})
        with tempfile.TemporaryDirectory(prefix="rollouthub-") as folder:
            record = EnvRecord(
                name=env.name,
                kind=kind,
                module=env.module,
                args=given.args,
                splits={},
                judge=given.judge,
                code=None if wheel is not None else CODE,
                absent=tuple(name.replace("-", "_") for name in given.without),
                datasets={name: f"{DATASETS}/{number}" for number, name in enumerate(sorted(given.datasets))},
            )
            _lay(env, record, given, Path(folder))
            answer: dict[str, Any] = anyio.run(_described, Path(folder), record, lock)
    except (HubError, OSError) as error:
        return _LoadedEnv(env, Candidate(id=env.name, reasons=(plain(str(error), 600),)))
    if "refused" in answer:
        reason = plain(str(answer["refused"]), 600)
        lifted = ("judge=none",) if given.judge != "none" and "asks a model itself" in reason else ()
        return _LoadedEnv(env, Candidate(id=env.name, reasons=(reason,), lifted_by=lifted, facts={"kind": kind}))
    reasons = list(answer["reasons"])
    if answer["judges"] and given.judge != "none":
        reasons.append(_JUDGED)
    counts: dict[str, int | None] = answer["splits"]
    splits = {split: min(_ENDLESS if count is None else count, given.rows) for split, count in counts.items()}
    splits = {split: count for split, count in splits.items() if count}
    if not splits:
        reasons.append("it has no rows")
    if bad := [split for split in splits if not is_part(split)]:  # each names a file
        reasons.append(f"no file can be named as its split {plain(bad[0], 80)!r}")
    facts: dict[str, JsonValue] = {
        "kind": kind,
        "class": answer["type"],
        "tasks": ", ".join(f"{split} {count:,}" for split, count in splits.items()),
        "tools": ", ".join(answer["tools"]),
        "judges": ", ".join(answer["judges"]),
    }
    candidate = Candidate(
        id=env.name,
        reasons=tuple(reasons),
        lifted_by=("judge=none",) if reasons == [_JUDGED] else (),
        facts=facts,
        unpromised=tuple(_unpromised(answer, counts, splits)),
    )
    record = record.model_copy(update={"splits": splits, "max_turns": answer["max_turns"]})
    return _LoadedEnv(env, candidate, record, lock, bool(answer["group"]))


def _unpromised(
    answer: Mapping[str, Any], counts: Mapping[str, int | None], splits: Mapping[str, int]
) -> Iterator[str]:
    """What its card says cannot be promised."""
    yield from answer.get("unpromised", ())
    if answer["judges"]:
        yield "a score where its judge would be asked: that is a fault of the verifier"
    for split, kept in splits.items():
        count = counts[split]
        if count is None or count > kept:
            yield f"more than the first {kept:,} of {'endless' if count is None else f'{count:,}'} rows of {split}"


def _lay(env: EnvFolder, record: EnvRecord, given: VerifiersImport, data: Path) -> None:
    """Put an environment's code and the data sets that were given into a folder."""
    if record.code is not None:
        shutil.copytree(env.folder, data / CODE, ignore=ignored)
    for name, folder in record.datasets.items():
        taken = Path(given.datasets[name])
        if not taken.is_dir():
            raise ConfigError(f"datasets: {str(taken)!r}, for {name!r}, is no folder")
        shutil.copytree(taken, data / folder, ignore=ignored)


async def _described(data: Path, record: EnvRecord, lock: ForeignLock) -> Any:
    program = await anyio.to_thread.run_sync(program_of, data, record, lock)
    async with running(program) as runtime, runtime.session() as session:
        return await session.ask("describe", seconds=_SECONDS)


async def _rows(data: Path, record: EnvRecord, lock: ForeignLock) -> None:
    """Write the rows of each split, as its own code gives them."""
    program = await anyio.to_thread.run_sync(program_of, data, record, lock)
    (data / ROWS).mkdir()
    async with running(program) as runtime, runtime.session() as session:
        for split, count in record.splits.items():
            with (data / ROWS / f"{split}.jsonl").open("w", encoding="utf-8") as lines:
                for start in range(0, count, _PAGE):
                    most = min(_PAGE, count - start)
                    texts = await session.ask("rows", seconds=_SECONDS, split=split, start=start, count=most)
                    lines.writelines(f"{'null' if text is None else text}\n" for text in texts)


def _write(
    found: _LoadedEnv,
    given: VerifiersImport,
    source: ImportSource,
    revision: str | None,
    folder: Path,
    identity: Identity,
) -> Path:
    record, lock = found.record, found.lock
    assert record is not None
    assert lock is not None
    assert identity.name is not None
    data = folder / "data"
    data.mkdir()
    _lay(found.env, record, given, data)
    lock.write(data, CODE, *record.datasets.values())
    (data / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
    try:
        anyio.run(_rows, data.absolute(), record, lock)
    except HubError as error:
        raise UsageError(f"its rows cannot be kept: {error}") from error
    unpromised = (*VerifiersImporter.about.unpromised, *found.candidate.unpromised)
    return (
        ImportedPackage(
            name=identity.name,
            license=identity.license,
            source=source.name,
            title=f"Environment {record.name} of verifiers",
            base=f"rollouthub_servers.verifiers:{'VerifiersGroup' if found.is_group else 'Verifiers'}",
            config="VerifiersConfig",
            settings={},
            ending="env",
            tags=("verifiers",),
            revision=revision,
            changes="Played unchanged, by the library's own loop; its answers and its rubric stay with the hub.",
            unpromised=unpromised,
        )
        .with_readme(_README, name=record.name, count=found.candidate.facts["tasks"], unpromised="; ".join(unpromised))
        .write(folder)
    )
