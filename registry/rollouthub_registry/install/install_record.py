"""`installed.json`: the record of an installation, with its source and how it was installed."""

from typing import Literal

from pydantic import AwareDatetime, Field

from rollouthub.plugins.lock import LockedEnvironment
from rollouthub.values import Frozen
from rollouthub_registry.bundle.attestation import Digest
from rollouthub_registry.names import Release


class InstalledRecord(Frozen):
    """What is known of an installed version; written once, in its folder."""

    schema_version: int = Field(default=1, ge=1, le=1)
    locked: LockedEnvironment
    """Its exact bytes and those of its dependencies, as a lock names them."""
    summary: str
    """Its description in the manifest, one line."""
    is_class: bool
    """Whether it is a Python class, which needs the hub in its virtual environment."""
    secrets: tuple[str, ...] = ()
    """Names of the environment variables that are passed to its process."""
    distribution: str | None = None
    """Distribution of its own wheel, in the spelling of wheel file names; None without a wheel."""
    tools_digest: Digest | None = None
    """Digest of the tool list that it was published with; None if the statement has none or it is unsigned."""
    checks_passed: bool | None = None
    """Whether its checks passed before it was published; None if it is unsigned."""
    installed_at: AwareDatetime
    hub_version: str
    """Version of the hub that installed it; a class has the same in its virtual environment, unless it brings its
    own.
    """
    installer: Literal["uv", "pip"]
    """Name of the installer that chose and installed its dependencies."""

    @property
    def release(self) -> Release:
        """The package and version that is installed."""
        return Release.parse(f"{self.locked.name}@{self.locked.version}")
