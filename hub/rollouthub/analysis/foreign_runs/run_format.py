"""`RunFormat`: the protocol of a reader of somebody else's runs; and how the format of a path is found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import RUN_READERS, plugins
from rollouthub.plugins.lookup import find_plugin
from rollouthub.rollout import Rollout


@dataclass(frozen=True, slots=True)
class StatedTotals:
    """What a tool itself says of its run; None where it does not say it.

    The first four are compared with what is read, and a difference is told.
    """

    rollouts: int | None = None
    """Number of episodes, unscored ones included."""
    scored: int | None = None
    """Number of episodes with a score."""
    mean_reward: float | None = None
    """Mean over scored episodes."""
    mean_of_tasks: float | None = None
    """Mean over tasks of the mean over a task's scored episodes."""
    others: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Further figures under the tool's own names, shown as they are."""


@dataclass(frozen=True, slots=True)
class ForeignFacts:
    """What a source says of its run as a whole."""

    tool: str
    """The tool and its version as far as known, such as `inspect_ai 0.3.285`."""
    environments: tuple[str, ...]
    model: str | None = None
    agent: str | None = None
    created_at: float | None = None
    """Unix time in seconds; None if the source does not say."""
    planned: int | None = None
    """Number of episodes, if it is known before all are read."""
    repeats: int = 1
    """Number of episodes of each task."""
    totals: StatedTotals = StatedTotals()
    missing: tuple[str, ...] = ()
    """What the format does not have, in words: each is said, and nothing stands in its place."""
    length: int = 0
    """The end of the source, in the unit of `FoundRollout.position`; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class FoundRollout:
    """One episode as a record of the hub's."""

    rollout: Rollout
    """Its `run_id` is set when it is stored."""
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Digest → bytes of the media in its messages."""
    tools: Sequence[Tool] = ()
    """The tools that `tools_digest` names."""
    position: int = 0
    """How much of the source was read by now, in bytes or any other unit."""
    held: int = 0
    """About how many bytes of memory it takes."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """An entry that makes no record, such as a line that is no JSON: it is counted and named, never guessed."""

    place: str
    """Where it is, such as `line 12`."""
    problem: str
    position: int = 0


@dataclass(frozen=True)
class ForeignRun:
    """A source, opened: its facts, and its episodes, which are read while they are asked for. Reading blocks."""

    facts: ForeignFacts
    entries: Iterator[FoundRollout | Unreadable]


@runtime_checkable
class RunFormat(Protocol):
    """Reads the runs of one foreign tool. It never writes to the source, nor runs anything of it."""

    @property
    def name(self) -> str:
        """The name it is registered under."""
        ...

    def recognises(self, path: Path) -> bool:
        """Whether a file or folder is of this format; reads some kB at most, and never raises for what it finds."""
        ...

    def read(self, path: Path) -> ForeignRun:
        """Open a source that it recognises.

        The iterator raises `ConfigError` where the source as a whole cannot be read on; one bad entry is `Unreadable`.

        Raises:
            ConfigError: the source cannot be read; says what is wrong and what to do.
        """
        ...


def find_format(name: str) -> RunFormat:
    """Return the reader registered for a format.

    Raises:
        UnknownNameError: no reader is registered under this name.
        ConfigError: the reader cannot be loaded.
    """
    return find_plugin(RUN_READERS, "run format", name, RunFormat)


def format_of_source(path: Path) -> RunFormat:
    """Return the reader that recognises a file or folder: the hub's own are asked first, in order of their names.

    Raises:
        ConfigError: none does; names the formats.
    """
    known = sorted(plugins(RUN_READERS).values(), key=lambda plugin: (not plugin.is_shipped, plugin.name))
    for plugin in known:
        reader = find_format(plugin.name)
        if reader.recognises(path):
            return reader
    raise ConfigError(
        f"{str(path)!r} is no run of the hub, and of no format that it reads as one "
        f"({', '.join(plugin.name for plugin in known)}); docs/foreign-runs.md says what each looks like"
    )
