"""`AuditedBase`: the env.toml and the files of an audited environment, from which an accepted set is made."""

import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins
from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.installed import find_installation
from rollouthub.plugins.manifest import load_manifest
from rollouthub_registry.bundle.file_selection import SourceFile, collect
from rollouthub_registry.shipped import shipped_folder

_PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["rollouthub"]

[tool.hatch.build.targets.wheel.force-include]
"{module}.py" = "{module}.py"

[tool.hatch.build.targets.wheel]
bypass-selection = true
"""


@dataclass(frozen=True)
class AuditedBase:
    """What an environment is made of."""

    values: dict[str, Any]
    """Its env.toml, parsed."""
    folder: Path | None = None
    """Its folder; None if its files lie in a distribution that is named."""
    files: Sequence[SourceFile] = ()
    """The files of its folder that belong to it."""
    texts: dict[str, str] = field(default_factory=dict[str, str])
    """Further files, by path."""

    def write(self, folder: Path) -> None:
        """Write its files, without the env.toml, into a folder."""
        for source in self.files:
            target = folder / source.path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source.file, target)
            target.chmod(0o755 if source.is_executable else 0o644)
        for path, text in self.texts.items():
            (folder / path).write_text(text, encoding="utf-8")


def audited_base(target: str, folder: Path) -> AuditedBase:
    """What an environment is made of that was named as `target` in a working folder.

    Raises:
        ConfigError: it is not there any more, or its folder holds what no bundle may hold.
    """
    if (shipped := shipped_folder(target)) is not None:
        return AuditedBase(_values(shipped / FILE_NAME))
    plugin = plugins(ENVIRONMENTS).get(target)
    if plugin is not None:
        python = {"entry": plugin.entry.value, "distribution": plugin.distribution}
        name = target if "/" in target else f"local/{_word(target)}"
        version = find_environment(target).environment.version
        return AuditedBase({"name": name, "version": version, "python": python})
    try:
        installation = find_installation(target)
    except UnknownNameError:
        installation = None  # a path that led from another working folder
    if installation is not None:
        return _of_folder(installation.file)
    path = folder / target
    if target.endswith(".py") or ".py:" in target:
        return _of_file(folder, target)
    if path.is_dir():
        path /= FILE_NAME
    if not path.is_file():
        raise ConfigError(f"--accept: the environment {target!r} is not there any more, as seen from {str(folder)!r}")
    return _of_folder(path)


def _of_folder(manifest: Path) -> AuditedBase:
    folder = manifest.parent
    files = [source for source in collect(folder) if source.path not in (FILE_NAME, manifest.name)]
    return AuditedBase(_values(manifest), folder, files)


def _of_file(folder: Path, target: str) -> AuditedBase:
    """A Python file: with the folder around it if that has an env.toml that names it, else by itself."""
    name, _, wanted = target.partition(".py:")
    file = folder / (name if name.endswith(".py") else f"{name}.py")
    if not file.is_file():
        raise ConfigError(f"--accept: the environment {target!r} is not there any more, as seen from {str(folder)!r}")
    manifest = file.with_name(FILE_NAME)
    if manifest.is_file():
        python = load_manifest(manifest).python
        if python is not None and python.entry.partition(":")[0] == file.stem:
            return _of_folder(manifest)
    environment = find_environment(f"{file}:{wanted}" if wanted else str(file)).environment
    module = f"{_word(file.stem).replace('-', '_')}_accepted"
    distribution = module.replace("_", "-")
    values = {
        "name": f"local/{_word(file.stem)}",
        "version": environment.version,
        "description": (environment.__doc__ or "").strip().partition("\n")[0],
        "python": {"entry": f"{module}:{environment.__qualname__}", "distribution": distribution},
    }
    project = _PROJECT.format(distribution=distribution, version=environment.version, module=module)
    texts = {"pyproject.toml": project, f"{module}.py": file.read_text(encoding="utf-8")}
    return AuditedBase(values, texts=texts)


def _values(file: Path) -> dict[str, Any]:
    load_manifest(file)
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _word(name: str) -> str:
    """A name in the letters that a package's may have."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "environment"
