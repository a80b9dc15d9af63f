"""Loads the module that a package's env.toml names from the package's folder, without installing it."""

import importlib.util
import re
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import CodeType
from typing import Any

from rollouthub.errors import ConfigError, describe

HUB = "rollouthub"


class FromSource(SourceFileLoader):
    """A source loader that ignores cached bytecode: the cache is keyed by mtime in seconds and size, so it can miss
    an edit, and the environment's digest is of the source bytes.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def load_from_folder(folder: Path, module: str) -> bool:
    """Import a module from a package's folder; return False where the folder has no source for it.

    The caller named the folder, so its code is trusted. The folder is appended to the import path, so it shadows no
    other module.

    Raises:
        ConfigError: the import failed, a requirement is missing, or another module of that name is loaded already.
    """
    top = module.partition(".")[0]
    found = _source_of(folder.resolve(), top)
    if found is None:
        return False
    root, path = found
    loaded = sys.modules.get(top)
    if loaded is not None:
        there = getattr(loaded, "__file__", None)
        if there is None or Path(there).resolve() != path:
            raise ConfigError(f"{path} cannot be loaded: another module is called {top!r} ({there or 'built in'})")
        return True
    _require(folder)
    if str(root) not in sys.path:
        sys.path.append(str(root))
    inside = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(
        top, path, loader=FromSource(top, str(path)), submodule_search_locations=inside
    )
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[top] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(made)
    except (Exception, SystemExit) as error:
        del sys.modules[top]
        raise ConfigError(f"{path} could not be imported: {describe(error)}") from error
    return True


def missing_requirements(requirements: tuple[str, ...]) -> list[tuple[str, str | None]]:
    """Return each requirement that the hub's own interpreter does not meet, with the installed version or None."""
    if not requirements:
        return []
    from packaging.requirements import InvalidRequirement, Requirement

    missing: list[tuple[str, str | None]] = []
    for text in requirements:
        try:
            requirement = Requirement(text)
        except InvalidRequirement as error:
            raise ConfigError(f"{text!r} is no requirement: {error}") from None
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        try:
            here = version(requirement.name)
        except PackageNotFoundError:
            here = None
        if here is None or (not requirement.url and not requirement.specifier.contains(here, prereleases=True)):
            missing.append((text, here))
    return missing


def _source_of(folder: Path, top: str) -> tuple[Path, Path] | None:
    for root in (folder / "src", folder):
        for path in (root / top / "__init__.py", root / f"{top}.py"):
            if path.is_file():
                return root, path
    return None


def _require(folder: Path) -> None:
    file = folder / "pyproject.toml"
    try:
        project: Any = tomllib.loads(file.read_text(encoding="utf-8")).get("project", {})
    except FileNotFoundError:
        return
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read: {error}") from None
    wanted = tuple(str(text) for text in project.get("dependencies", ()))
    others = tuple(text for text in wanted if re.split(r"[^\w.-]", text.strip(), maxsplit=1)[0].lower() != HUB)
    if missing := missing_requirements(others):
        named = ", ".join(f"{text!r} (here is {here or 'none'})" for text, here in missing)
        command = "pip install " + " ".join(f"'{text}'" for text, _ in missing)
        raise ConfigError(f"{file}: what it depends on is missing here: {named}; `{command}`")
