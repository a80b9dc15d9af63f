"""`Installed`: the installed environments of this user, as the hub finds, verifies and admits them."""

import os
from collections.abc import Sequence
from pathlib import Path

from mcp_types import Tool

from rollouthub.errors import ConfigError
from rollouthub.plugins.extras import pip_install
from rollouthub.plugins.installed import Installation
from rollouthub_registry.install.install_home import InstallHome


class Installed:
    """The plug-in `registry` of `rollouthub.installations`.

    Finding needs none of what the extra `registry` brings: the hub inside an installed environment lacks it.
    """

    def __init__(self, home: InstallHome | None = None, settings: Path | None = None) -> None:
        """`home` and the folder of `settings` are the user's own unless others are given."""
        self.home, self._settings = home or InstallHome.of(os.environ), settings

    def all(self) -> Sequence[Installation]:
        """Every version there is, by name and version.

        Raises:
            ConfigError: one is damaged.
        """
        return self.home.all()

    def readable(self) -> tuple[Sequence[Installation], Sequence[ConfigError]]:
        """See `Installations`."""
        return self.home.readable()

    def find(self, target: str) -> Installation | None:
        """See `Installations`."""
        return self.home.find(target)

    def verify(self, installation: Installation) -> None:
        """See that what lies on the disk is what was installed.

        Raises:
            InstallationDamaged: it is not.
            TrustRefused: its key is not trusted any more, or this version had other bytes.
            ConfigError: its record is damaged, or the extra that can tell is not installed.
        """
        try:
            from rollouthub_registry.install.integrity import verify_installed, verify_trusted
            from rollouthub_registry.trust.keys import config_folder
            from rollouthub_registry.trust.pin_store import TrustStore
        except ImportError as error:
            raise _unable(installation, error) from error
        verify_trusted(installation, TrustStore(self._settings or config_folder(os.environ)))
        verify_installed(installation, self.home)

    def admit(self, installation: Installation, tools: Sequence[Tool]) -> None:
        """See that it offers the tools it was published with; one that nobody signed offers what it likes.

        Raises:
            ToolsChanged: it offers others.
            ConfigError: its record is damaged, or the extra that can tell is not installed.
        """
        record = self.home.record(installation)
        if record.tools_digest is None:
            return
        try:
            from rollouthub_registry.trust.tool_pins import check_tools
        except ImportError as error:
            raise _unable(installation, error) from error
        check_tools(tools, record.tools_digest, record.release)


def _unable(installation: Installation, error: ImportError) -> ConfigError:
    return ConfigError(f"{installation.target} cannot be verified: {error}; `{pip_install('registry')}`")
