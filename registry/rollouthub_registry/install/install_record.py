"""`installed.json`: what was installed, from where, and how."""

from typing import Literal

from pydantic import AwareDatetime, Field

from rollouthub.frozen import Frozen
from rollouthub.plugins.lock import LockedEnvironment
from rollouthub_registry.bundle.attestation import Digest
from rollouthub_registry.names import Release


class InstalledRecord(Frozen):
    """What there is to know of an installed version; written once, beside it."""

    schema_version: int = Field(default=1, ge=1, le=1)
    locked: LockedEnvironment
    """The exact bytes of it, its dependencies too."""
    summary: str
    """One line for people, as its manifest has it."""
    is_class: bool
    """Whether it is a Python class, with the hub in its virtual environment."""
    secrets: tuple[str, ...] = ()
    """Names of the environment variables that its process is given."""
    distribution: str | None = None
    """Of its own wheel, as the file names of wheels spell it; None where it has none."""
    tools_digest: Digest | None = None
    """Of the tool list that it was published with; None where nobody said."""
    checks_passed: bool | None = None
    """Whether it passed its checks when it was published; None where nobody said."""
    installed_at: AwareDatetime
    hub_version: str
    """Of the hub that installed it; it is also the one beside a class, unless that brings its own."""
    installer: Literal["uv", "pip"]
    """What chose and installed its dependencies."""

    @property
    def release(self) -> Release:
        """Which version of which package it is."""
        return Release.parse(f"{self.locked.name}@{self.locked.version}")
