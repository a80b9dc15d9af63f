"""`Installed`: finds, verifies and admits the installed environments of this user."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rollouthub.errors import ConfigError
from rollouthub.plugins.extras import pip_install
from rollouthub.plugins.installed import Installation
from rollouthub_registry.install.install_home import InstallHome

if TYPE_CHECKING:
    from mcp_types import Tool

    from rollouthub_registry.trust.pins import Pins


class Installed:
    """The plug-in `registry` of `rollouthub.installations`.

    Finding works without the extra `registry`, which the hub inside an installed environment lacks.
    """

    def __init__(self, home: InstallHome | None = None, settings: Path | None = None) -> None:
        """`home` and the settings folder `settings` default to the user's own."""
        self.home, self._settings = home or InstallHome.of(os.environ), settings

    def all(self) -> Sequence[Installation]:
        """Every installed version, sorted by name and version.

        Raises:
            ConfigError: an installation is damaged.
        """
        return self._marked(self.home.all())

    def readable(self) -> tuple[Sequence[Installation], Sequence[ConfigError]]:
        """See `Installations`."""
        readable, damaged = self.home.readable()
        return self._marked(readable), damaged

    def find(self, target: str) -> Installation | None:
        """See `Installations`."""
        found = self.home.find(target)
        return None if found is None else self._marked([found])[0]

    def _marked(self, found: Sequence[Installation]) -> list[Installation]:
        """The installations with what the trust store says of walls; none is trusted where it cannot be read."""
        if not found:
            return []
        try:
            from rollouthub_registry.trust.keys import config_folder
            from rollouthub_registry.trust.pin_store import TrustStore, TrustStoreError
        except ImportError:
            return list(found)
        try:
            pins = TrustStore(self._settings or config_folder(os.environ)).pins()
        except TrustStoreError:  # `verify` says so, before anything is run
            return list(found)
        return [_marked_in(each, pins) for each in found]

    def verify(self, installation: Installation) -> None:
        """Check that the files on disk are those that were installed, and that the key that signed them is still
        trusted.

        Raises:
            InstallationDamaged: a file differs.
            TrustRefused: its key is no longer trusted, or this version was seen with other bytes.
            ConfigError: its record is damaged, or the extra `registry` is not installed.
        """
        try:
            from rollouthub_registry.install.integrity import verify_installed, verify_trusted
            from rollouthub_registry.trust.keys import config_folder
            from rollouthub_registry.trust.pin_store import TrustStore
        except ImportError as error:
            raise _unable(installation, error) from error
        verify_trusted(installation, TrustStore(self._settings or config_folder(os.environ)))
        verify_installed(installation, self.home)

    def admit(self, installation: Installation, tools: "Sequence[Tool]") -> None:
        """Check that its server offers the tools it was published with; tools of unsigned packages are not checked.

        Raises:
            ToolsChanged: it offers other tools.
            ConfigError: its record is damaged, or the extra `registry` is not installed.
        """
        record = self.home.record(installation)
        if record.tools_digest is None:
            return
        try:
            from rollouthub_registry.trust.tool_pins import check_tools
        except ImportError as error:
            raise _unable(installation, error) from error
        check_tools(tools, record.tools_digest, record.release)


def _marked_in(installation: Installation, pins: "Pins") -> Installation:
    locked = installation.locked
    return replace(installation, needs_no_wall=pins.needs_no_wall(locked.name, locked.version, locked.bundle))


def _unable(installation: Installation, error: ImportError) -> ConfigError:
    return ConfigError(f"{installation.target} cannot be verified: {error}; `{pip_install('registry')}`")
