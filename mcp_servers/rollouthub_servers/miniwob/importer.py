"""`MiniWobImporter`: each task that the library registers is begun twice in Chromium, to see that it plays."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
from pydantic import BaseModel, ConfigDict, JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import (
    NO_SNAPSHOT,
    Candidate,
    ForeignFormat,
    Identity,
    ImportSource,
    Note,
    silent,
)
from rollouthub_servers.foreign.import_settings import split_settings
from rollouthub_servers.foreign.package import ImportedPackage, package_name
from rollouthub_servers.foreign.requirements import PYTHON, ForeignLock, foreign_home
from rollouthub_servers.foreign.runtime import ForeignRuntime
from rollouthub_servers.miniwob.miniwob_environment import PROMPT, MiniWobConfig
from rollouthub_servers.miniwob.miniwob_program import find_chromium, miniwob_program
from rollouthub_servers.new_folder import new_folder
from rollouthub_servers.step_api.games import GAMES_FILE, Catalogue, KnownGame
from rollouthub_servers.step_api.importer import describe_all

DATA = "tasks"
_README = """\
{count} tasks of MiniWoB++, taken from {source}. A task is an id and a seed: `ID/SEED`.

```bash
hub run {module}.py --limit 5 -m MODEL
hub run {module}.py --set 'ids=["{first}"]' --set seeds=100 -m MODEL
hub check {module}.py
```

Each is a page that runs as it is in this machine's Chromium (`apt-get install chromium`), apart from the hub; the
library's wheel is locked with its hashes in `{folder}/foreign.lock.json`. The reward is the library's raw reward, -1 to
1, without the part that falls with the time that is taken; who stops before the end has 0. A page's clock stands
still between actions.
{unpromised}
Licence and description stand in `env.toml`: see that they are true before you publish.
"""


class MiniWobImport(BaseModel):
    """The import has no settings but those of the environment."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@dataclass
class MiniWobImporter:
    """Reads the library's registry."""

    environment: str | None = None
    _looked: dict[str, tuple[ForeignLock, list[Candidate], dict[str, KnownGame]]] = field(
        default_factory=dict[str, tuple[ForeignLock, list[Candidate], dict[str, KnownGame]]]
    )
    """What was found under which source and settings: an import looks before it writes."""

    @property
    def about(self) -> ForeignFormat:
        """What the format is."""
        return ForeignFormat(
            summary="Tasks on small web pages, by mouse and keys in Chromium (MiniWoB++)",
            item="task",
            sources={"requirement": "the library's distribution, such as miniwob==1.0"},
            unpromised=(
                "the same picture on another machine: Chromium and the fonts are the machine's",
                NO_SNAPSHOT,
            ),
            available=Path(__file__).with_name("available.toml"),
        )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """Return every task of the registry; each is begun to examine it."""
        return self._look(source, settings, note)[1]

    def _look(
        self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note
    ) -> tuple[ForeignLock, list[Candidate], dict[str, KnownGame]]:
        key = json.dumps([source.text, source.patterns, dict(settings)], sort_keys=True)
        if key not in self._looked:
            _, config, _ = split_settings(settings, MiniWobImport, MiniWobConfig)
            find_chromium()
            home = foreign_home()
            lock = ForeignLock(python=PYTHON, wheel=(wheel := home.wheel(source.text)))
            library = home.unpacked(wheel, note) / "miniwob"
            if not (library / "html" / "core" / "core.js").is_file() or not (library / "registration.py").is_file():
                raise ConfigError(f"{source.text} is not MiniWoB++: it has no miniwob/html/core/core.js")
            program = miniwob_program(
                library,
                home.python(lock.dependencies, note),
                render=config.render,
                action_seconds=config.action_seconds,
                step_seconds=config.step_seconds,
            )
            note("beginning each task twice in Chromium, to see that it plays")
            candidates, games = anyio.run(describe_all, ForeignRuntime(program), None, note, source.patterns)
            plain = [each.model_copy(update={"facts": {}}) for each in candidates]
            named = {id: game.model_copy(update={"prompt": PROMPT}) for id, game in games.items()}
            self._looked[key] = lock, plain, named
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
        """Write one package of the chosen tasks."""
        _, _, kept = split_settings(settings, MiniWobImport, MiniWobConfig)
        lock, _, games = self._look(source, settings, note)
        found = [games[id] for id in chosen if id in games]
        if not found:
            raise ConfigError(f"none of the chosen tasks of {source.text} can be played, so there is nothing to write")
        unpromised = tuple(
            dict.fromkeys((*self.about.unpromised, *(line for each in found for line in each.unpromised)))
        )
        package = ImportedPackage(
            name=package_name(identity, out.resolve().name),
            license=identity.license,
            source=source.name,
            title=f"{len(found)} MiniWoB++ task{'s' if len(found) > 1 else ''}",
            base="rollouthub_servers.miniwob:MiniWob",
            config="MiniWobConfig",
            settings=kept,
            folder=DATA,
            ending="tasks",
            tags=("web", "miniwob"),
            determinism="none" if any(each.unpromised for each in found) else "seeded",
            revision="sha256:" + hashlib.sha256(lock.model_dump_json().encode()).hexdigest(),
            changes="The reward is the raw one; a page's clock runs only while somebody acts.",
            unpromised=unpromised,
        ).with_readme(
            _README,
            count=len(found),
            first=found[0].id,
            unpromised="".join(f"\nNot promised: {line}.\n" for line in unpromised),
        )
        with new_folder(out) as partial:
            (partial / DATA).mkdir(parents=True)
            catalogue = Catalogue(library="miniwob", players=1, games=tuple(found))
            (partial / DATA / GAMES_FILE).write_text(catalogue.model_dump_json(indent=1), encoding="utf-8")
            lock.write(partial / DATA)
            return [out / package.write(partial).name]
