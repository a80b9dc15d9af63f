"""`AgentWorldModelImporter`: which scenarios can be played here, and packages made of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.importers import Candidate, ForeignFormat, Identity, ImportSource, Note, silent
from rollouthub_servers.agent_world_model.awm_environment import AgentWorldModelConfig
from rollouthub_servers.agent_world_model.scenario_files import SCENARIOS, find_scenarios, write_scenarios
from rollouthub_servers.foreign.package import ImportedPackage, package_name
from rollouthub_servers.foreign.requirements import lock_requirements
from rollouthub_servers.new_folder import new_folder

_REQUIREMENTS = (
    *("fastapi==0.115.12", "sqlalchemy[asyncio]==2.0.41", "aiosqlite>=0.20", "email-validator>=2"),
    "python-multipart>=0.0.9",
)
"""The versions that the applications were generated and tested with."""
_README = """\
{tasks} tasks in {scenarios} scenarios of AgentWorldModel, from {source}: generated web applications over SQLite.

```bash
hub run {module}.py --model MODEL
```

Code and verifiers were written by models and are run behind walls; not each of them was examined. A verifier
that fails leaves no score.
"""


class AgentWorldModelImporter:
    """Reads the JSONL files of AgentWorldModel."""

    environment = None
    about = ForeignFormat(
        summary="Generated web applications over SQLite, their operations as tools (AgentWorldModel-1K)",
        item="scenario",
        sources={"folder": "gen_tasks, gen_db, gen_sample, gen_envs and gen_verifier.pure_code, each .jsonl"},
        unpromised=(
            "the same world twice: rows and applications take the date of the day",
            "that a task can be solved, or that its verifier is right: both were written by models",
        ),
    )

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = silent) -> Sequence[Candidate]:
        """Every scenario; its code is not run."""
        check_config(AgentWorldModelConfig, {"data": "", **settings}, "environment 'agent_world_model'", "--set")
        found: list[Candidate] = []
        for each in find_scenarios(source.folder).values():
            count, playable = len(each.tasks), len(each.playable)
            less = f"{count - playable} of {count} tasks have no verifier in code and are left out"
            unpromised = (less,) if playable < count else ()
            facts: dict[str, JsonValue] = {"tasks": playable}
            found.append(Candidate(id=each.name, reasons=each.reasons, facts=facts, unpromised=unpromised))
        if not found:
            raise ConfigError(f"{source.text!r} holds no scenarios")
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
        """Copy the chosen scenarios, a file each, and write one environment of them."""
        if not chosen:
            raise ConfigError(f"none of the scenarios in {source.text!r} can be played, so there is nothing to write")
        found = find_scenarios(source.folder)
        scenarios = [found[name] for name in chosen]
        kept = {name: value for name, value in settings.items() if name != "data"}
        lock = lock_requirements(_REQUIREMENTS, note)
        with new_folder(out) as partial:
            data = partial / "data"
            data.mkdir()
            write_scenarios(source.folder, scenarios, data)
            lock.write(data, SCENARIOS)
            name, count = package_name(identity, out.resolve().name), sum(len(each.playable) for each in scenarios)
            package = ImportedPackage(
                name=name,
                license=identity.license,
                source=source.name,
                title=f"{count:,} tasks of AgentWorldModel",
                base="rollouthub_servers.agent_world_model:AgentWorldModel",
                config="AgentWorldModelConfig",
                settings=kept,
                tags=("tools", "databases", "agent-world-model"),
                source_license="CC-BY-4.0",
                unpromised=self.about.unpromised,
            ).with_readme(_README, tasks=f"{count:,}", scenarios=f"{len(scenarios):,}")
            file = package.write(partial)
        return [out / file.name]
