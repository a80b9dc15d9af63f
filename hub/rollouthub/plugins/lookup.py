"""Finding a plug-in of any kind by name: registered under an entry-point group, made, and held against its protocol."""

from typing import TypeVar

from rollouthub.errors import ConfigError, UnknownNameError, describe
from rollouthub.plugins.entry_points import load_plugin, plugins

Kind = TypeVar("Kind")


def find_plugin(group: str, noun: str, name: str, protocol: type[Kind]) -> Kind:
    """What the name stands for in a group whose entries are called without arguments, as a class is.

    Raises:
        UnknownNameError: nothing is registered under the name; the nearest that is gets named.
        ConfigError: it cannot be loaded, or does not follow the protocol, which is runtime-checkable.
    """
    known = plugins(group)
    plugin = known.get(name)
    if plugin is None:
        raise UnknownNameError(noun, name, known)
    factory = load_plugin(plugin)
    where = f"the {noun} {name!r} of distribution {plugin.distribution!r} ({plugin.entry.value})"
    try:
        made = factory()
    except Exception as error:
        raise ConfigError(f"{where} could not be made: {describe(error)}") from error
    if not isinstance(made, protocol):
        raise ConfigError(f"{where} does not follow {protocol.__module__}.{protocol.__qualname__}")
    return made
