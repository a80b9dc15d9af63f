"""Finds the folder of an environment to publish: a folder, an env.toml, or the name of one of the hub's own."""

from pathlib import Path

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub_registry.shipped import shipped_folder, shipped_names


def folder_of(target: str) -> Path:
    """The folder with the env.toml; a bare name means one of the hub's own, and `./NAME` a folder.

    Raises:
        UnknownNameError: there is no such folder and no such name.
        ConfigError: the folder holds no env.toml.
    """
    path = Path(target)
    if path.name == FILE_NAME:
        path = path.parent
    shipped = shipped_folder(target)
    if shipped is not None:
        return shipped
    if path.is_file():
        raise ConfigError(
            f"{target!r} is a file; an environment is published as a folder with an {FILE_NAME}: `hub new`"
        )
    if not path.is_dir() and "/" in target:
        raise ConfigError(f"there is no folder {target!r}; name the one that holds the {FILE_NAME}")
    if not path.is_dir():
        raise UnknownNameError("environment", target, shipped_names(), "A folder with an env.toml is given by its path")
    if not (path / FILE_NAME).is_file():
        raise ConfigError(f"{path} holds no {FILE_NAME}; name the folder of an environment (`hub new` starts one)")
    return path.resolve()
