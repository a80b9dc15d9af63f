"""The names of a new environment: in the registry, of its module and class, and of its distribution."""

import importlib.util
import keyword
import re
import sys
from dataclasses import dataclass

from rollouthub.errors import ConfigError
from rollouthub_registry.names import NameRefused, PackageName

_PART = re.compile(r"[a-z][a-z0-9_-]{0,49}")
LOCAL = "local"
"""Namespace of a new environment that was given none, since bare names are the hub's own."""

PLACEHOLDERS = (
    ("authors", "Someone <someone@example.org>"),
    ("description", "Add up bills from prices that must be looked up."),
    ("description", "Bring goods to their places on the shelves of a small store."),
)
"""Placeholder texts in the templates, by key of `env.toml`, which the author must replace."""


@dataclass(frozen=True)
class PackageNames:
    """One environment's names."""

    registered: str
    """`namespace/name`, as `hub run` takes it once it is installed."""
    distribution: str
    module: str
    title: str
    """Name of the class, such as `MyEnv` for `my-env`."""


def names_of(name: str, *, is_imported: bool = True) -> PackageNames:
    """All names for `my_env` or `namespace/my_env`, each valid for publishing.

    Raises:
        ConfigError: the name is invalid, or it is a keyword or a module of Python.
    """
    namespace, slash, last = name.rpartition("/")
    for part in (namespace, last) if slash else (last,):
        if not _PART.fullmatch(part):
            raise ConfigError(
                f"{name!r} is no name for an environment: write my_env or namespace/my_env, "
                "with small letters, digits, - and _, beginning with a letter"
            )
    if "_" in namespace:
        raise ConfigError(
            f"the namespace {namespace!r} holds `_`, which names of MCP servers do not take; use `-`: "
            f"{namespace.replace('_', '-')}/{last}"
        )
    registered = f"{namespace or LOCAL}/{last}"
    try:
        PackageName.parse(registered)
    except NameRefused as error:
        raise ConfigError(f"{name!r} is no name for an environment: {error}") from error
    module = last.replace("-", "_")
    if is_imported:
        _require_free(module, last)
    title = "".join(part.capitalize() for part in module.split("_") if part)
    distribution = f"{namespace}-{last}" if slash else last
    return PackageNames(registered, distribution.replace("_", "-"), module, title)


def _require_free(module: str, last: str) -> None:
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or module == "rollouthub":
        raise ConfigError(f"{last!r} means something else to Python; choose another name")
    spec = importlib.util.find_spec(module)
    if spec is not None and spec.origin is not None:  # a mere folder of the name is no package
        raise ConfigError(f"there is a package {module!r} installed here already; choose another name")
