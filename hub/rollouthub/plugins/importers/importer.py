"""`Importer`: what makes tasks of a foreign format playable, and how it is found."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from pydantic import JsonValue

from rollouthub.frozen import Frozen
from rollouthub.plugins.lookup import find_plugin

IMPORTERS = "rollouthub.importers"
COMMANDS = "rollouthub.import_commands"
"""Name → a command below `hub import`, for what is no folder of tasks."""


class Identity(Frozen):
    """What an environment that is made of something foreign is called, and under which terms."""

    name: str | None = None
    """`namespace/name`; None is `local/` and the name of the new folder."""
    license: str | None = None
    """An SPDX expression; None where nobody said."""


class Candidate(Frozen):
    """A task that was found, and whether it can be run."""

    id: str
    reasons: tuple[str, ...] = ()
    """Why it is refused, a file and a key each; empty where it can be run."""
    lifted_by: tuple[str, ...] = ()
    """Options that would lift its refusal, the most careful of them first; empty where none does."""
    facts: dict[str, JsonValue] = {}
    """What a table shows of it: its image, profile, network and the like."""

    @property
    def runs(self) -> bool:
        """Whether it can be run as it is written."""
        return not self.reasons


@runtime_checkable
class Importer(Protocol):
    """Reads tasks in one foreign format."""

    @property
    def environment(self) -> str:
        """Name of the registered environment that plays imported tasks; `--set data=FOLDER` gives it their folder."""
        ...

    def look(self, folder: Path, settings: Mapping[str, JsonValue]) -> Sequence[Candidate]:
        """Every task in a folder, under the settings the environment would be given.

        Raises:
            ConfigError: there is none, or a setting does not hold.
        """
        ...

    def write(self, folder: Path, settings: Mapping[str, JsonValue], out: Path, identity: Identity) -> Path:
        """Copy what can be run into a new folder that stands for itself, and can be published; the file that `hub run`
        takes.

        Raises:
            ConfigError: there is something in the new folder already, or nothing to write.
        """
        ...


def find_importer(name: str) -> Importer:
    """The importer of a format.

    Raises:
        UnknownNameError: nobody registered one under this name.
        ConfigError: it cannot be loaded.
    """
    return find_plugin(IMPORTERS, "importer", name, Importer)
