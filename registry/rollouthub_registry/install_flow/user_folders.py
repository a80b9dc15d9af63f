"""`UserFolders`: the folders of a user's installed environments, settings and project."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rollouthub.errors import UnknownNameError
from rollouthub.plugins.installed import Installation
from rollouthub_registry.client.registries import Registries
from rollouthub_registry.install.install_home import InstallHome
from rollouthub_registry.names import PackageName, Version
from rollouthub_registry.shipped import refuse_shipped
from rollouthub_registry.trust.keys import config_folder
from rollouthub_registry.trust.pin_store import TrustStore


@dataclass(frozen=True)
class UserFolders:
    """The user's files that an installation reads and writes."""

    home: InstallHome
    config: Path
    here: Path
    """The folder where the command was given."""
    environ: Mapping[str, str]

    @classmethod
    def of(cls, environ: Mapping[str, str], here: Path) -> "UserFolders":
        """The folders of this user."""
        return cls(InstallHome.of(environ), config_folder(environ), here, environ)

    @property
    def trust(self) -> TrustStore:
        """The user's trust store."""
        return TrustStore(self.config)

    @property
    def registries(self) -> Registries:
        """The user's registries.

        Raises:
            ConfigError: the list is invalid.
        """
        return Registries.load(self.config, self.environ)

    def named(self, text: str, verb: str) -> PackageName:
        """The installed package that `namespace/name` or `namespace/name@…` means; errors use `verb` for what was to be
        done.

        Raises:
            UsageError: none with that name is installed, or it comes with the hub.
        """
        refuse_shipped(text, verb)
        bare = text.partition("@")[0]
        known = {str(release.package) for release in self.home.releases()}
        if bare in known:
            return PackageName.parse(bare)
        if "/" in bare or not known:
            PackageName.parse(bare)  # says what is wrong with a name that nothing could have
        raise UnknownNameError("installed environment", bare, known, "" if known else "Nothing is installed.")

    def installed(self, package: PackageName) -> list[Installation]:
        """The installed versions of a package that can be read, the highest last; damaged ones are left out.

        Raises:
            ConfigError: the folder of installations cannot be read.
        """
        readable, _ = self.home.readable(package)
        return sorted(readable, key=version_of)


def version_of(installation: Installation) -> Version:
    """The version of an installation."""
    return Version.parse(installation.locked.version)
