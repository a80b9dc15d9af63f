"""The package that imported tasks become: a class that finds them beside itself, wherever it is installed."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from pydantic import JsonValue

from rollouthub.plugins.importers import Identity
from rollouthub.plugins.manifest import FILE_NAME, parse_manifest

TASKS = "tasks"
UNSTATED = "LicenseRef-unstated"
"""The licence of tasks whose importer named none: it says just that, and is still for whoever publishes to find out."""
_MODULE = '''"""Harbor tasks, copied from {source}."""

from pathlib import Path
from typing import Any

from pydantic import model_validator

from rollouthub import Environment
from rollouthub_servers.terminal import Terminal, TerminalConfig

DEFAULTS: dict[str, Any] = {{
    "data": str(Path(__file__).parent / "{tasks}"),
{settings}}}


class ImportedConfig(TerminalConfig):
    """What is not set is as it was when the tasks were imported."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        return DEFAULTS | values


class Imported(Terminal, Environment[ImportedConfig]):
    """Tasks in the Harbor format from {source}."""

    version = "{version}"
'''
_PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{distribution}"
version = "{version}"
requires-python = ">=3.11"
dependencies = ["rollouthub"]

# In the wheel the module becomes a package, with the tasks inside.
[tool.hatch.build.targets.wheel.force-include]
"{module}.py" = "{module}/__init__.py"
"{tasks}" = "{module}/{tasks}"

[tool.hatch.build.targets.wheel]
bypass-selection = true
"""
_IGNORED = f"""\
# Tasks are kept whole, whatever their files are called; but for what Python leaves behind.
!/{TASKS}/**
__pycache__/
*.py[co]
"""
_README = """\
# {name}

{count} tasks in the Harbor format, copied from {source}. They need Docker or Podman.

```bash
hub run {module}.py --agent oracle
hub check {module}.py
hub publish . --to REGISTRY             # others: hub install {name}
```

Where they are installed, their images are built without a network; `--build-network bridge` lifts that.

Licence and description stand in `env.toml`: see that they are true before you publish.
"""


@dataclass(frozen=True)
class Package:
    """What there is to say of the new package."""

    name: str
    license: str | None
    source: str
    """Where the tasks were copied from."""
    count: int
    settings: Mapping[str, JsonValue]
    version: str = "0.1.0"

    @classmethod
    def of(
        cls, folder: str, identity: Identity, source: str, count: int, settings: Mapping[str, JsonValue]
    ) -> "Package":
        """The package in a folder of some name.

        Raises:
            ConfigError: its name or licence does not hold.
        """
        last = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-") or TASKS
        package = cls(identity.name or f"local/{last}", identity.license, source, count, settings)
        parse_manifest(package.manifest.encode(), FILE_NAME)
        return package

    @property
    def module(self) -> str:
        """Ends so that it is nobody else's."""
        word = re.sub(r"\W+", "_", self.name.partition("/")[2]) or TASKS
        return f"{'_' if word[0].isdigit() else ''}{word}_tasks"

    @property
    def distribution(self) -> str:
        """What its wheel is called."""
        return re.sub(r"[^a-z0-9]+", "-", self.name)

    @property
    def manifest(self) -> str:
        """Its env.toml."""
        bridged = "bridge" in (self.settings.get("network"), self.settings.get("verifier_network"))
        return tomli_w.dumps(
            {
                "name": self.name,
                "version": self.version,
                "description": f"{self.count} tasks in the Harbor format from {self.source}.",
                "license": self.license or UNSTATED,
                "tags": ["terminal", "containers", "harbor"],
                "determinism": "none",
                "python": {"entry": f"{self.module}:Imported", "distribution": self.distribution},
                "sandbox": {"network": "bridge" if bridged else "none"},
                "adopted_from": {"source": self.source, "changes": "Only what can be run here was taken."},
            }
        )


def write_package(package: Package, folder: Path) -> Path:
    """Write everything but the tasks; the module."""
    names = {"source": package.source, "tasks": TASKS, "module": package.module, "version": package.version}
    lines = "".join(f'    "{name}": {value!r},\n' for name, value in sorted(package.settings.items()))
    texts = {
        f"{package.module}.py": _MODULE.format(**names, settings=lines),
        FILE_NAME: package.manifest,
        "pyproject.toml": _PROJECT.format(**names, distribution=package.distribution),
        ".hubignore": _IGNORED,
        "README.md": _README.format(**names, name=package.name, count=package.count),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder / f"{package.module}.py"
