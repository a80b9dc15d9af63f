"""One task's samples as a data set takes them, and where they come from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mcp_types import Tool
from pydantic import ValidationError

from rollouthub.errors import UnknownNameError
from rollouthub.export.conversation import tool_schemas
from rollouthub.export.shown_tools import shown_tools
from rollouthub.rollout import Rollout, Turn
from rollouthub.store.media import media_name
from rollouthub.store.reader import RunReader
from rollouthub.store.sql_schema import MEDIA


class RunSource:
    """What rollouts of a run refer to: the tools they were shown, the pictures they saw."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._tools: dict[str, tuple[Tool, ...]] = {}
        self._media = reader.directory.resolve() / MEDIA

    def tools(self, rollout: Rollout, turns: Sequence[Turn]) -> str | None:
        """The tools its model was shown in a conversation, as JSON text; None where it was shown none.

        Raises:
            ValueError: the run has lost them.
        """
        digest = rollout.tools_digest
        if digest is not None and digest not in self._tools:
            self._tools[digest] = self._read(digest)
        shown = shown_tools(rollout, turns, () if digest is None else self._tools[digest])
        return tool_schemas(shown) if shown else None

    def _read(self, digest: str) -> tuple[Tool, ...]:
        try:
            return tuple(self._reader.tools(digest))
        except (UnknownNameError, ValidationError) as error:
            raise ValueError(f"the tools it was offered ({digest[:19]}…) are not in its run") from error

    def media(self, digest: str) -> Path:
        """Where the bytes of a picture lie.

        Raises:
            ValueError: that is no digest.
        """
        return self._media / media_name(digest)


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """The samples of a task that a data set takes, by sample."""

    rollouts: tuple[Rollout, ...]
    source: RunSource
    has_images: bool
    """Whether rows have a column of pictures."""
    rewards: Mapping[str, float] = field(default_factory=dict[str, float])
    """By rollout: of every member that may be learnt from, those that filters left out, too."""
    advantages: Mapping[str, float] = field(default_factory=dict[str, float])
    """By rollout, of the same."""
