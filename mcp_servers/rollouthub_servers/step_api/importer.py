"""Importers of step APIs: each id of a library's registry is begun once in a foreign process, to see what it is."""

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from rollouthub.errors import ConfigError, HubError
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
from rollouthub.text import plain
from rollouthub_servers.foreign.import_settings import split_settings
from rollouthub_servers.foreign.package import ImportedPackage, package_name
from rollouthub_servers.foreign.partial_lock import lock_without
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.foreign.session import ForeignRefusal
from rollouthub_servers.new_folder import new_folder
from rollouthub_servers.step_api.environment import StepConfig
from rollouthub_servers.step_api.games import GAMES_FILE, NLTK_FOLDER, Catalogue, KnownGame, Library
from rollouthub_servers.step_api.program import step_program

DATA = "games"
DESCRIBE_SECONDS = 60.0
"""Maximum seconds for the library to begin one game during an import."""
AT_ONCE = 4
_SHOWN_REASON = 300
_CLASSES = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight")
_README = """\
{count} {library} games for {players}, taken from {source}. A task is an id and a seed: `ID/SEED`.

```bash
hub run {module}.py --limit 5 -m MODEL
hub run {module}.py --set 'ids=["{first}"]' --set seeds=100 -m MODEL
hub check {module}.py
```

The library runs in a virtual environment and processes of its own; what it needs is locked with hashes in
`{folder}/foreign.lock.json`. Rewards are the library's; agents see observations alone.
{unpromised}
Licence and description stand in `env.toml`: see that they are true before you publish.
"""


class StepImport(BaseModel):
    """Settings of the import, besides the settings of the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    players: int | None = Field(default=None, ge=1, le=len(_CLASSES))
    """Number of players; by default the fewest with which a game can begin."""
    modules: tuple[str, ...] = ()
    """Modules that register ids when they are imported, such as `minigrid`."""
    requirements: tuple[str, ...] = ()
    """Distributions that games need but the library does not declare, such as `numpy`."""
    without: tuple[str, ...] = ()
    """Distributions that the library declares but that have no wheel; games that need their modules are refused."""
    nltk_data: Path | None = None
    """A folder of NLTK data for games that would otherwise download it; it is copied into the package."""


@dataclass
class StepImporter:
    """Reads the registry of one library."""

    library: Library
    about: ForeignFormat
    environment: str | None = None
    _looked: dict[str, tuple[ForeignLock, list[Candidate], dict[str, KnownGame]]] = field(
        default_factory=dict[str, tuple[ForeignLock, list[Candidate], dict[str, KnownGame]]]
    )
    """What was found under which source and settings: an import looks before it writes."""

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """Return every id of the registry; each is begun to examine it."""
        return self._look(source, settings, note)[1]

    def _look(
        self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note
    ) -> tuple[ForeignLock, list[Candidate], dict[str, KnownGame]]:
        key = json.dumps([source.text, source.patterns, dict(settings)], sort_keys=True)
        if key not in self._looked:
            own, config, _ = split_settings(settings, StepImport, StepConfig)
            lock = lock_without([source.text, *own.requirements], own.without, note)
            python = foreign_home().python(lock.dependencies, note)
            nltk = own.nltk_data
            if nltk is not None and not nltk.is_dir():
                raise ConfigError(f"nltk_data={str(nltk)!r} is no folder; name one that holds `corpora`")
            program = step_program(
                self.library, python, modules=own.modules, absent=own.without, render=config.render, nltk=nltk
            )
            note("beginning each game once, to see how it is played")
            candidates, games = anyio.run(describe_all, ForeignRuntime(program), own.players, note, source.patterns)
            self._looked[key] = lock, candidates, games
        return self._looked[key]

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = silent,
    ) -> Sequence[Path]:
        """One package of games with the same number of players; below `out` one for each number where they differ."""
        own, _, kept = split_settings(settings, StepImport, StepConfig)
        lock, _, games = self._look(source, settings, note)
        groups: dict[int, list[KnownGame]] = {}
        for id in chosen:
            if id in games:
                groups.setdefault(games[id].players, []).append(games[id])
        if not groups:
            raise ConfigError(f"none of the chosen ids of {source.text} can be played, so there is nothing to write")
        written: list[Path] = []
        with new_folder(out) as partial:
            for players, found in sorted(groups.items()):
                below = Path() if len(groups) == 1 else Path(f"{players}-player{'s' if players > 1 else ''}")
                (partial / below / DATA).mkdir(parents=True)
                catalogue = Catalogue(
                    library=self.library,
                    players=players,
                    modules=own.modules,
                    absent=own.without,
                    games=tuple(found),
                )
                _write_data(partial / below / DATA, catalogue, lock, own.nltk_data)
                name = package_name(identity, out.resolve().name) + ("" if len(groups) == 1 else f"-{players}")
                package = self._package(name, identity.license, source, catalogue, lock, kept)
                written.append(out / below / package.write(partial / below).name)
        return written

    def _package(
        self,
        name: str,
        terms: str | None,
        source: ImportSource,
        catalogue: Catalogue,
        lock: ForeignLock,
        kept: Mapping[str, JsonValue],
    ) -> ImportedPackage:
        count, players = len(catalogue.games), catalogue.players
        unpromised = dict.fromkeys(
            (*self.about.unpromised, *(line for each in catalogue.games for line in each.unpromised))
        )
        return ImportedPackage(
            name=name,
            license=terms,
            source=source.name,
            title=f"{count} {self.library} game{'s' if count > 1 else ''}",
            base=f"rollouthub_servers.step_api:{_CLASSES[players - 1]}Player{'s' if players > 1 else ''}",
            config="StepConfig",
            settings=kept,
            folder=DATA,
            ending="games",
            tags=("games", self.library),
            determinism="none" if any(each.unpromised for each in catalogue.games) else "seeded",
            revision="sha256:" + hashlib.sha256(lock.model_dump_json().encode()).hexdigest(),
            unpromised=tuple(unpromised),
        ).with_readme(
            _README,
            count=count,
            library=self.library,
            players=f"{players} player{'s' if players > 1 else ''}",
            first=catalogue.games[0].id,
            unpromised="".join(f"\nNot promised: {line}.\n" for line in unpromised),
        )


def _write_data(folder: Path, catalogue: Catalogue, lock: ForeignLock, nltk: Path | None) -> None:
    (folder / GAMES_FILE).write_text(catalogue.model_dump_json(indent=1), encoding="utf-8")
    lock.write(folder)
    if nltk is not None:
        shutil.copytree(nltk, folder / NLTK_FOLDER)


async def describe_all(
    runtime: ForeignRuntime, players: int | None, note: Note, patterns: Sequence[str] = ()
) -> tuple[list[Candidate], dict[str, KnownGame]]:
    """A candidate for each id of the library's registry, and the games of the ids that can be played.

    Each id is started twice, in two sessions, to see whether it begins alike; some ids at a time.
    """
    found: dict[str, Candidate] = {}
    games: dict[str, KnownGame] = {}
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def describe(id: str) -> None:
        async with limiter:
            game, found[id] = await _described(runtime, id, players)
        if game is not None:
            games[id] = game
        if len(found) % 100 == 0:
            note(f"{len(found)} begun")

    try:
        async with runtime.session() as session:
            ids: list[str] = await session.ask("ids", seconds=DESCRIBE_SECONDS)
        if ids:
            ids = chosen_names(ids, patterns, "id")
        async with anyio.create_task_group() as group:
            for id in ids:
                group.start_soon(describe, id)
    finally:
        await anyio.to_thread.run_sync(runtime.close)
    if not ids:
        raise ConfigError("the library's registry is empty; name the modules that fill it: --set 'modules=[\"NAME\"]'")
    return [found[id] for id in ids], games


async def _described(runtime: ForeignRuntime, id: str, players: int | None) -> tuple[KnownGame | None, Candidate]:
    again: Any = None
    try:
        async with runtime.session() as session:
            first = await session.ask("describe", seconds=DESCRIBE_SECONDS, id=id, players=players)
        if "refused" not in first:
            async with runtime.session() as session:
                given = {"id": id, "seed": 0, "players": first["players"]}
                again = await session.ask("reset", seconds=DESCRIBE_SECONDS, **given)
    except (HubError, ForeignRefusal) as error:
        return None, Candidate(id=id, reasons=(_shown(str(error)),))
    if "refused" in first:
        return None, Candidate(id=id, reasons=(_shown(str(first["refused"])),))
    is_same = first["opening"] == again
    unpromised = () if is_same else (f"that {id} begins alike under the same seed",)
    known = {name: first[name] for name in ("prompt", "players", "actions", "arguments") if name in first}
    game = KnownGame(id=id, unpromised=unpromised, **known)
    facts: dict[str, JsonValue] = {"players": game.players, "tools": ", ".join(game.actions) or "step"}
    return game, Candidate(id=id, facts=facts, unpromised=unpromised)


def _shown(reason: str) -> str:
    return plain(reason, _SHOWN_REASON)


def _about(library: str, summary: str, example: str, *unpromised: str) -> ForeignFormat:
    return ForeignFormat(
        summary=summary,
        item="id",
        sources={"requirement": f"the library's distribution, such as {example}"},
        unpromised=(*unpromised, NO_SNAPSHOT),
        available=Path(__file__).with_name("available") / f"{library}.toml",
    )


def gymnasium_importer() -> StepImporter:
    """Return the importer for Gymnasium and libraries that register environments with it."""
    about = _about(
        "gymnasium",
        "Environments with actions and observations of a space (Gymnasium)",
        "'gymnasium[classic-control,toy-text]==1.4.0'",
        "that an environment keeps its seed: what draws random numbers of its own does not",
    )
    return StepImporter("gymnasium", about)


def textarena_importer() -> StepImporter:
    """Return the importer for TextArena."""
    about = _about(
        "textarena",
        "Games in words for one to many players (TextArena)",
        "textarena==0.7.4",
        "that a game keeps its seed: each draws its random numbers as it likes",
    )
    return StepImporter("textarena", about)


def gem_importer() -> StepImporter:
    """Return the importer for GEM."""
    about = _about(
        "gem",
        "Games, puzzles and questions in words, rewarded at each step (GEM)",
        'gem-llm==0.1.0 (with --set \'without=["cellpylib","pycosat","zss"]\', which have no wheel)',
        "that an environment keeps its seed: each draws its random numbers as it likes",
    )
    return StepImporter("gem", about)
