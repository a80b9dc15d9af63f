"""Find a plug-in of any kind by name: look it up in an entry-point group, call its factory, check the result against
a protocol.
"""

from typing import TypeVar

from rollouthub.errors import ConfigError, UnknownNameError, describe
from rollouthub.plugins.entry_points import load_plugin, plugins

Kind = TypeVar("Kind")


def find_plugin(group: str, noun: str, name: str, protocol: type[Kind]) -> Kind:
    """Return the plug-in that a name stands for, made by calling its entry (a class or function) without arguments.

    Raises:
        UnknownNameError: nothing is registered under the name; the message names the nearest registered names.
        ConfigError: the plug-in cannot be loaded or made, or does not follow the protocol, which must be
        runtime-checkable.
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
