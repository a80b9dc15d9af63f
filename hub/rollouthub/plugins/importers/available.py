"""What an importer says can be imported with one command: a table of sources and items beside it, as TOML."""

import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError, model_validator

from rollouthub.errors import ConfigError
from rollouthub.plugins.manifest.value_forms import Licence, Url
from rollouthub.values import Frozen


class AvailableItem(Frozen):
    """What one command imports."""

    about: str = Field(min_length=1, max_length=200)
    """What it is, in a few words."""
    tasks: int | None = Field(default=None, ge=1)
    """Number of tasks that were listed from it; None where that depends on settings."""
    patterns: tuple[str, ...] | None = None
    """The source's items that the command names; None where it is this item's own name, empty for all of them."""
    settings: tuple[str, ...] = ()
    """`KEY=VALUE` that the import needs."""


class AvailableSource(Frozen):
    """A pinned place to import from, and what there is."""

    source: str = Field(min_length=1, max_length=400)
    """What `hub import` is told: a distribution with its version, or a commit of a repository."""
    license: Licence
    """The source's own licence, as an SPDX expression."""
    bytes: int | None = Field(default=None, ge=1)
    """Size of the source itself, without what it requires; None where it is not known beforehand."""
    repository: Url | None = None
    """Repository that has to be cloned first, into the folder that `source` names; None where the importer fetches."""
    commit: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    """With `repository`: the commit to check out."""
    items: Mapping[str, AvailableItem] = Field(min_length=1)
    """Name → what is imported under it."""

    @model_validator(mode="after")
    def _holds(self) -> "AvailableSource":
        if (self.repository is None) != (self.commit is None):
            raise ValueError("`repository` and `commit` go together")
        return self

    def command(self, importer: str, name: str) -> str:
        """The line of a shell that imports an item into a new folder of its name."""
        item = self.items[name]
        chosen = (name,) if item.patterns is None else item.patterns
        given = (word for setting in item.settings for word in ("--set", setting))
        imported = shlex.join(["hub", "import", importer, self.source, *chosen, *given, "-o", name])
        if self.repository is None or self.commit is None:
            return imported
        cloned = shlex.join(["git", "clone", "-q", self.repository, self.source])
        return f"{cloned} && {shlex.join(['git', '-C', self.source, 'checkout', '-q', self.commit])} && {imported}"


class _Table(Frozen):
    sources: tuple[AvailableSource, ...]


def read_available(file: Path) -> tuple[AvailableSource, ...]:
    """Read an importer's table.

    Raises:
        ConfigError: it cannot be read, or is no such table.
    """
    try:
        return _Table.model_validate(tomllib.loads(file.read_text())).sources
    except (OSError, ValueError) as error:
        problem = error.errors()[0] if isinstance(error, ValidationError) else None
        said = str(error) if problem is None else f"{'.'.join(map(str, problem['loc']))}: {problem['msg']}"
        raise ConfigError(f"the table {file} cannot be read: {said}") from error
