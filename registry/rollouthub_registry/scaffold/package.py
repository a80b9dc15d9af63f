"""Writes a new environment package, completely or not at all."""

import shutil
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub_registry.scaffold.names import LOCAL, PackageNames, names_of

PYTHON = {
    "env.toml": "python/env.toml.template",
    "pyproject.toml": "python/pyproject.toml.template",
    "README.md": "python/README.md.template",
    "src/{module}.py": "python/environment.py.template",
    "tests/test_{module}.py": "python/test_environment.py.template",
    ".gitignore": "gitignore.template",
}
"""Files of an environment as a Python class: path → template."""
SERVER = {
    "env.toml": "server/env.toml.template",
    "README.md": "server/README.md.template",
    "server.py": "server/server.py.template",
    "tasks.jsonl": "server/tasks.jsonl.template",
    "verify.py": "server/verify.py.template",
    "tests/test_{module}.py": "server/test_environment.py.template",
    ".gitignore": "gitignore.template",
}
"""Files of an environment as a declared MCP server with tasks and a verifier: path → template."""


@dataclass(frozen=True)
class NewPackage:
    """The package that was created."""

    names: PackageNames
    directory: Path
    files: tuple[str, ...]
    is_server: bool = False

    @property
    def commands(self) -> tuple[str, ...]:
        """The commands to try first."""
        if self.is_server:
            tried = (f"hub check {self.directory}", f"hub run {self.directory} -a oracle")
            return (*tried, f"cd {self.directory} && python -m pytest")
        path = self.directory if self.directory.is_absolute() else f"./{self.directory}"
        return (f"hub check {path}", f"hub run {path} -m mock/solver", f"cd {self.directory} && python -m pytest")

    @property
    def warning(self) -> str | None:
        """What must be changed before it can be published; None if nothing."""
        namespace, _, name = self.names.registered.partition("/")
        if namespace != LOCAL:
            return None
        return (
            f"It is called {self.names.registered}, which cannot be published: start it with "
            f"`hub new YOUR-NAMESPACE/{name}`, or change `name` in its env.toml"
        )

    def as_json(self) -> dict[str, Any]:
        """The object `hub new --json` prints."""
        return {
            "name": self.names.registered,
            "directory": str(self.directory),
            "files": list(self.files),
            "commands": list(self.commands),
        }


def make_package(name: str, directory: Path | None = None, *, is_server: bool = False) -> NewPackage:
    """Create a package in a folder that is empty or does not exist: a class, or a declared MCP server.

    Raises:
        ConfigError: the name is invalid, or the folder is not empty or cannot be created.
    """
    names = names_of(name, is_imported=not is_server)
    target = directory or Path(names.module)
    forms = SERVER if is_server else PYTHON
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise ConfigError(f"{target} is there already, and nothing is overwritten; name another folder with --dir")
        was_there = target.exists()
        try:
            files = tuple(
                _write(target, form.format(module=names.module), source, names) for form, source in forms.items()
            )
        except OSError:
            if not was_there:
                shutil.rmtree(target, ignore_errors=True)
            raise
    except OSError as error:
        raise ConfigError(
            f"cannot write {target}: {error.strerror or error}; name another folder with --dir"
        ) from error
    return NewPackage(names, target, files, is_server)


def _write(target: Path, file: str, source: str, names: PackageNames) -> str:
    text = (resources.files("rollouthub_registry.scaffold") / "template" / source).read_text(encoding="utf-8")
    path = target / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(Template(text).substitute(vars(names)), encoding="utf-8")
    return file
