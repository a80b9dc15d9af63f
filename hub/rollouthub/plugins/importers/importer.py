"""`Importer`: the protocol that makes tasks and environments of a foreign format playable; and how to find one by
name.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol, overload, runtime_checkable

from pydantic import Field, JsonValue

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.importers.source import KINDS, ImportSource, SourceKind
from rollouthub.plugins.lookup import find_plugin
from rollouthub.values import Frozen

IMPORTERS = "rollouthub.importers"
COMMANDS = "rollouthub.import_commands"
"""Name → a command below `hub import`, for formats whose sources offer no items to choose from."""

Note = Callable[[str], None]
"""A callback that gets one line of text at each slow step, for progress."""


class Identity(Frozen):
    """The name and licence of an environment that is made from a foreign source."""

    name: str | None = None
    """`namespace/name`; None means `local/` and the name of the new folder."""
    license: str | None = None
    """An SPDX expression; None where the caller gave none."""


NO_SNAPSHOT = "a snapshot: the world lives in the memory of a foreign process, and no episode of it can be restored"
"""What formats do not promise whose worlds are neither files nor databases; `Environment.snapshot` refuses there."""


class Candidate(Frozen):
    """An item that a source offers, such as a task or a server, and whether the hub can play it."""

    id: str
    reasons: tuple[str, ...] = ()
    """Why the hub cannot play the item, each reason with a file and a key; empty where it can."""
    lifted_by: tuple[str, ...] = ()
    """Options that would make the item playable, the safest option first; empty where no option does."""
    facts: dict[str, JsonValue] = {}
    """The item's columns in a table: its image, profile, network and the like."""
    unpromised: tuple[str, ...] = ()
    """Guarantees that this item lacks beyond those that its format lacks, such as that a judge gives the same score
    twice.
    """

    @property
    def runs(self) -> bool:
        """Whether the hub can play the item as it is written."""
        return not self.reasons


@dataclass(frozen=True)
class Written(Sequence[Path]):
    """The paths that an import wrote, to pass to `hub run`, and which chosen items it had to leave out."""

    paths: tuple[Path, ...]
    left_out: tuple[Candidate, ...] = ()
    """The items as candidates whose `reasons` say what went wrong."""

    @overload
    def __getitem__(self, index: int) -> Path: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Path]: ...
    def __getitem__(self, index: int | slice) -> Path | Sequence[Path]:
        return self.paths[index]

    def __len__(self) -> int:
        return len(self.paths)


class ForeignFormat(Frozen):
    """Description of a foreign format, which is available before anything is imported."""

    summary: str
    """What the format holds, in one line."""
    item: str
    """The noun for one item of a source: `task`, `server`."""
    sources: dict[SourceKind, str]
    """Kind of source that the importer takes → what such a source holds, with an example where one helps."""
    unpromised: tuple[str, ...] = ()
    """Guarantees that the format lacks, such as the same world for the same actions, seeds, or parallel episodes."""
    available: Path | None = Field(default=None, exclude=True)
    """The table of what can be imported with one command, beside the importer (`read_available`); None where there is
    none.
    """

    def check(self, source: ImportSource) -> None:
        """Refuse a source of a kind that the format does not take.

        Raises:
            ConfigError: the kind is not in `sources`; the message names the kinds that are.
        """
        if source.kind not in self.sources:
            taken = "; or ".join(f"{KINDS[kind]}: {words}" for kind, words in self.sources.items())
            raise ConfigError(f"{source.text!r} is {KINDS[source.kind]}, and this format takes {taken}")


@runtime_checkable
class Importer(Protocol):
    """Reads one foreign format. Foreign code never runs in the hub's process."""

    @property
    def about(self) -> ForeignFormat:
        """The description of the format; cheap to compute."""
        ...

    @property
    def environment(self) -> str | None:
        """Name of the registered environment that plays a folder of this format without an import (`--set
        data=FOLDER`); None where there is none.
        """
        ...

    def look(self, source: ImportSource, settings: Mapping[str, JsonValue], note: Note = ...) -> Sequence[Candidate]:
        """Return every item that a source offers, judged under the settings that the environment would get. Blocks.

        Raises:
            ConfigError: the source offers nothing, or a setting is invalid.
        """
        ...

    def write(
        self,
        source: ImportSource,
        chosen: Sequence[str],
        settings: Mapping[str, JsonValue],
        out: Path,
        identity: Identity,
        note: Note = ...,
    ) -> Sequence[Path]:
        """Write packages that play the chosen items into the folder `out`. Blocks.

        The packages need nothing from the source, and can be run and published. They lock the foreign material by
        digest; a field that the importer does not know is refused or copied. Returns the paths to pass to `hub run`; as
        `Written`, which says so, where a chosen item could not be written.

        Raises:
            ConfigError: `out` is not empty, or there is nothing to write; nothing stays in `out`.
        """
        ...


def chosen_of(found: Sequence[Candidate], patterns: Sequence[str], item: str) -> list[Candidate]:
    """Return the candidates whose ids match at least one pattern (`*`, `?`, `[…]`), in their order; without patterns,
    all.

    Raises:
        UnknownNameError: a pattern matches no id; the message names the nearest ones.
    """
    names = set(chosen_names([candidate.id for candidate in found], patterns, item))
    return [candidate for candidate in found if candidate.id in names]


def chosen_names(names: Sequence[str], patterns: Sequence[str], item: str) -> list[str]:
    """Return the names that match at least one pattern (`*`, `?`, `[…]`) in their order; without patterns, all names.

    Raises:
        UnknownNameError: a pattern matches no name; the message names the nearest ones.
    """
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UnknownNameError(item, pattern, list(names))
    return [name for name in names if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)]


def find_importer(name: str) -> Importer:
    """Return the importer registered for a format.

    Raises:
        UnknownNameError: no importer is registered under this name.
        ConfigError: the importer cannot be loaded.
    """
    return find_plugin(IMPORTERS, "importer", name, Importer)


def silent(_: str) -> None:
    """A `Note` that discards its text."""
