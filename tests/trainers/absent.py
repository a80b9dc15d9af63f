"""Stand-ins for modules that are not installed, where a training system imports them beside what is tested."""

import sys
from collections.abc import Generator, Iterable, MutableSequence, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class Absent(ModuleType):
    """Whatever is looked up in it is an empty class."""

    __path__: MutableSequence[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Absents(MetaPathFinder, Loader):
    """Finds every module below the packages it is for."""

    def __init__(self, packages: Iterable[str]) -> None:
        self.packages = frozenset(packages)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


@contextmanager
def absent(*packages: str) -> Generator[None]:
    """Let these packages be found as far as they are not installed; forgotten again at the end."""
    finder = _Absents(package for package in packages if find_spec(package) is None)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if isinstance(module, Absent)]:
            del sys.modules[name]
