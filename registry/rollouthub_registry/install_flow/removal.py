"""`hub remove`: removes exactly the named versions."""

from collections.abc import Sequence

from rollouthub.errors import ConfigError
from rollouthub_registry.install_flow.user_folders import UserFolders
from rollouthub_registry.names import Release


def remove(names: Sequence[str], place: UserFolders, *, all_versions: bool = False) -> list[Release]:
    """Remove `namespace/name@version`, or `namespace/name` if only one version is installed; damaged ones, too.

    Raises:
        UsageError: one is not installed, or a name means several versions; nothing is removed then.
    """
    chosen = dict.fromkeys(release for name in names for release in _chosen(name, place, all_versions))
    for release in chosen:
        place.home.remove(release)
    return list(chosen)


def _chosen(name: str, place: UserFolders, all_versions: bool) -> list[Release]:
    package, at = place.named(name, "remove"), "@" in name
    there = place.home.releases(package)
    versions = ", ".join(str(release.version) for release in there)
    if at:
        wanted = Release.parse(name)
        if wanted not in there:
            raise ConfigError(f"{wanted} is not installed; of {package} there is {versions}")
        return [wanted]
    if len(there) > 1 and not all_versions:
        raise ConfigError(
            f"of {package} several versions are installed: {versions}; say which, as {there[0]}, or --all-versions"
        )
    return there
