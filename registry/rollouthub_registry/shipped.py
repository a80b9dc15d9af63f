"""The hub's own environments as packages: where the folder of a bare name is, which can be published like any other."""

from importlib.util import find_spec
from pathlib import Path

from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.manifest import FILE_NAME

PRESETS = "presets"
"""Beside the environments, a folder for each named configuration of one."""


def shipped_folder(name: str) -> Path | None:
    """The folder with the env.toml of an environment or preset that comes with the hub; None of any other name.

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
    """The bare names, in order."""
    return [name for name, plugin in plugins(ENVIRONMENTS).items() if plugin.is_shipped]


def refuse_shipped(text: str, verb: str) -> None:
    """See that a name, with a version or not, is none of these: they come and go with the hub.

    Raises:
        ConfigError: it is; `verb` says what was to be done with it.
    """
    name = text.partition("@")[0]
    if name in shipped_names():
        raise ConfigError(f"{name} comes with the hub: there is nothing to {verb}; `hub run {name}` plays it")
