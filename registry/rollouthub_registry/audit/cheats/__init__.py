"""The library of cheats: ways to be paid without doing the work. One small file each, with a `CHEAT`."""

import importlib.util
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from rollouthub.errors import ConfigError, describe
from rollouthub_registry.audit.cheats.cheat import Cheat
from rollouthub_registry.check.defect_class import DEFECTS

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,59}")
_HELPERS = frozenset({"cheat"})


def all_cheats() -> tuple[Cheat, ...]:
    """The cheats of the library, by name."""
    names = (module.name for module in pkgutil.iter_modules(__path__) if module.name not in _HELPERS)
    return tuple(sorted((_cheat_in(name) for name in names), key=lambda cheat: cheat.name))


def _cheat_in(module: str) -> Cheat:
    cheat = import_module(f"{__name__}.{module}").CHEAT
    assert isinstance(cheat, Cheat)
    return cheat


def cheats_of_files(files: list[Path]) -> Iterator[Cheat]:
    """The cheats in Python files that the user named; the files are run.

    Raises:
        ConfigError: a file cannot be run, or has no `CHEAT`.
    """
    for number, file in enumerate(files):
        spec = importlib.util.spec_from_file_location(f"rollouthub_cheat_{number}", file) if file.is_file() else None
        if spec is None or spec.loader is None:
            raise ConfigError(f"--add-cheat {str(file)!r}: there is no such Python file")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            raise ConfigError(f"--add-cheat {str(file)!r} cannot be run: {describe(error)}") from error
        cheat = getattr(module, "CHEAT", None)
        if not isinstance(cheat, Cheat):
            raise ConfigError(
                f"--add-cheat {str(file)!r} has no CHEAT; write one: `CHEAT = Cheat(name, defect, title, source, act)`"
            )
        if not _NAME.fullmatch(cheat.name):
            raise ConfigError(f"--add-cheat {str(file)!r}: the name {cheat.name!r} is not of a-z, 0-9 and '-'")
        if cheat.defect not in DEFECTS:
            raise ConfigError(
                f"--add-cheat {str(file)!r}: there is no class {cheat.defect!r}; there are: {', '.join(DEFECTS)}"
            )
        yield cheat
