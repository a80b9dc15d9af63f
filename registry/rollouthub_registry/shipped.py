"""The hub's own environments as packages: finds the folder of a bare name, which can be published like any other."""

from importlib.util import find_spec
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.env_toml import FILE_NAME

PRESETS = "presets"
"""Folder beside the environments with a folder for each preset, a named configuration."""


def shipped_folder(name: str) -> Path | None:
    """The folder with the env.toml of an environment or preset that ships with the hub; None for any other name.

    Nothing of it is imported.

    Raises:
        ConfigError: two distributions claim a name.
    """
    plugin = plugins(ENVIRONMENTS).get(name)
    if plugin is None or not plugin.is_shipped:
        return None
    spec = find_spec(plugin.entry.module.partition(".")[0])
    roots = [] if spec is None else spec.submodule_search_locations or []
    folders = (folder for root in roots for folder in (Path(root, name), Path(root, PRESETS, name)))
    return next((folder for folder in folders if (folder / FILE_NAME).is_file()), None)


def shipped_names() -> list[str]:
    """The bare names, sorted."""
    return [name for name, plugin in plugins(ENVIRONMENTS).items() if plugin.is_shipped]


def refuse_shipped(text: str, verb: str) -> None:
    """Refuse the names of environments that ship with the hub, since they cannot be installed or removed separately.

    Raises:
        ConfigError: it is such a name; the message uses `verb` for what was to be done.
    """
    name = text.partition("@")[0]
    if name in shipped_names():
        raise ConfigError(f"{name} comes with the hub: there is nothing to {verb}; `hub run {name}` plays it")
