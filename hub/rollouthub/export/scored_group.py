"""One task's samples for a data set, and access to the run that they are from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_types import Tool
from pydantic import ValidationError

from rollouthub.authoring.rewards import GroupMethod, group_advantages
from rollouthub.errors import UnknownNameError
from rollouthub.export.conversation import tool_schemas
from rollouthub.export.shown_tools import shown_tools
from rollouthub.rollout import Rollout, Turn
from rollouthub.store.media import media_name
from rollouthub.store.reader import RunReader
from rollouthub.store.sql_schema import MEDIA


class RunSource:
    """The tools and media of a run, to which its rollouts refer."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._tools: dict[str, tuple[Tool, ...]] = {}
        self._media = reader.directory.resolve() / MEDIA

    def tools(self, rollout: Rollout, turns: Sequence[Turn]) -> str | None:
        """The tools that the model was shown in a conversation, as JSON text; None without any.

        Raises:
            ValueError: the run does not have their definitions.
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
        """The path of a picture's file.

        Raises:
            ValueError: the text is not a digest.
        """
        return self._media / media_name(digest)


@dataclass(frozen=True, slots=True)
class ScoredGroup:
    """The samples of a task that a data set takes, in the order of their numbers."""

    rollouts: tuple[Rollout, ...]
    source: RunSource
    has_images: bool
    """Whether rows have a column of pictures."""
    members: tuple[Rollout, ...] = ()
    """Every scored member that may be trained on, including those that filters left out."""

    def advantages(self, seat: str, method: GroupMethod) -> Mapping[str, float]:
        """A seat's advantage by rollout id, relative to the same seat in the other members."""
        centred = group_advantages([member.reward_of(seat) for member in self.members], method)
        found = zip(self.members, centred, strict=True)
        return {member.rollout_id: value for member, value in found if value is not None}
