"""One task's samples as a data set takes them, and where they come from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from envhub.errors import UnknownNameError
from envhub.rollout import Rollout
from envhub.store.media import media_name
from envhub.store.reader import RunReader
from envhub.store.schema import MEDIA
from envhub.training.conversation import tool_schemas


class RunSource:
    """What rollouts of a run refer to: the tools they were offered, the pictures they saw."""

    def __init__(self, reader: RunReader) -> None:
        self._reader = reader
        self._tools: dict[str, str | None] = {}
        self._media = reader.directory.resolve() / MEDIA

    def tools(self, rollout: Rollout) -> str | None:
        """The tools it was offered, as JSON text; None where it was offered none.

        Raises:
            ValueError: the run has lost them.
        """
        digest = rollout.tools_digest
        if digest is None:
            return None
        if digest not in self._tools:
            self._tools[digest] = self._read(digest)
        return self._tools[digest]

    def _read(self, digest: str) -> str | None:
        try:
            found = self._reader.tools(digest)
        except (UnknownNameError, ValidationError) as error:
            raise ValueError(f"the tools it was offered ({digest[:19]}…) are not in its run") from error
        return tool_schemas(found) if found else None

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
