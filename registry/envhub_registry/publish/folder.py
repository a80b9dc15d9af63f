"""The folder of an environment to publish: given itself, by its env.toml, or by the bare name of one of the hub's."""

from pathlib import Path

from envhub.errors import ConfigError
from envhub.manifest import FILE_NAME
from envhub_registry.shipped import shipped_folder


def folder_of(target: str) -> Path:
    """The folder that holds the env.toml.

    Raises:
        ConfigError: there is none.
    """
    path = Path(target)
    if path.name == FILE_NAME and path.is_file():
        path = path.parent
    if path.is_dir():
        return path.resolve()
    if (shipped := shipped_folder(target)) is not None:
        return shipped
    raise ConfigError(f"there is no folder {target!r}; name the one that holds the {FILE_NAME}")
