"""`ImportedPackage`: the Python package that an import writes; its class finds its files beside its module, wherever
it is installed.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import JsonValue

from rollouthub.plugins.env_toml import FILE_NAME
from rollouthub.plugins.importers import Identity
from rollouthub.plugins.manifest import parse_manifest
from rollouthub.text import one_line

UNSTATED = "LicenseRef-unstated"
"""The licence of a package without a named licence: it says that it is unknown; the publisher has to find out."""
_MOST_LINES = 40
_PART = re.compile(r"\w[\w.+-]{0,99}")
_MODULE = '''"""{about}"""

from pathlib import Path
from typing import Any

from pydantic import model_validator

from rollouthub import Environment
from {module} import {environment}, {config}

DEFAULTS: dict[str, Any] = {{
    "data": str(Path(__file__).parent / "{folder}"),
{settings}}}


class ImportedConfig({config}):
    """What is not set is as it was at the import."""

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, values: Any) -> Any:
        return DEFAULTS | values


class Imported({environment}, Environment[ImportedConfig]):
    """{about}"""

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

# In the wheel the module becomes a package, with its files inside.
[tool.hatch.build.targets.wheel.force-include]
"{module}.py" = "{module}/__init__.py"
"{folder}" = "{module}/{folder}"

[tool.hatch.build.targets.wheel]
bypass-selection = true
"""
_IGNORED = """\
# What was imported is kept whole, whatever its files are called; but for what Python leaves behind.
!/{folder}/**
__pycache__/
*.py[co]
"""


@dataclass(frozen=True)
class ImportedPackage:
    """Describes a new package and writes it."""

    name: str
    """`namespace/name`."""
    license: str | None
    source: str
    """The source that the package was made from, in a form that can be looked up."""
    title: str
    """The package's content in a few words: `12 tasks in the Harbor format`."""
    base: str
    """The base class, `package.module:Class`; its config has a field `data`, the folder of the package's files."""
    config: str
    """Name of the base class's config class, in the same module."""
    settings: Mapping[str, JsonValue]
    """Further settings that were given at the import."""
    readme: str = ""
    """Text of the README below its title."""
    folder: str = "data"
    """Name of the folder of the package's files, beside the module."""
    ending: str = "tasks"
    """Suffix of the module's name, so that it clashes with no other module."""
    tags: tuple[str, ...] = ()
    determinism: str = "none"
    network: str = "none"
    revision: str | None = None
    """The version of the source that was imported, by digest where there is one."""
    source_license: str | None = None
    changes: str = "Only what can be run here was taken."
    version: str = "0.1.0"
    unpromised: Sequence[str] = ()
    """What the format, or this work in it, cannot promise."""

    def __post_init__(self) -> None:
        parse_manifest(self.manifest.encode(), FILE_NAME)

    @property
    def module(self) -> str:
        """Import name of the package's module."""
        word = re.sub(r"\W+", "_", self.name.partition("/")[2]) or self.folder
        return f"{'_' if word[0].isdigit() else ''}{word}_{self.ending}"

    @property
    def distribution(self) -> str:
        """Name of the package's distribution."""
        return re.sub(r"[^a-z0-9]+", "-", self.name)

    @property
    def manifest(self) -> str:
        """Text of the package's env.toml."""
        adopted: dict[str, Any] = {"source": self.source[:400], "changes": self.changes}
        adopted |= {"revision": self.revision[:100]} if self.revision else {}
        adopted |= {"license": self.source_license} if self.source_license else {}
        lines = [line[:400] for line in dict.fromkeys(self.unpromised)]
        if len(lines) > _MOST_LINES:
            lines = [*lines[: _MOST_LINES - 1], f"and {len(lines) - _MOST_LINES + 1} more, which the README names"]
        adopted |= {"unpromised": lines} if lines else {}
        return tomli_w.dumps(
            {
                "name": self.name,
                "version": self.version,
                "description": f"{self.title} from {self.source}."[:1000],
                "license": self.license or UNSTATED,
                "tags": list(self.tags),
                "determinism": self.determinism,
                "python": {"entry": f"{self.module}:Imported", "distribution": self.distribution},
                "sandbox": {"network": self.network},
                "adopted_from": adopted,
            }
        )

    def with_readme(self, template: str, **values: object) -> "ImportedPackage":
        """The package with a README made from a template, which may also use `{source}`, `{module}` and `{folder}`."""
        known = {"source": self.source, "module": self.module, "folder": self.folder}
        return replace(self, readme=template.format(**(known | values)))

    def write(self, folder: Path) -> Path:
        """Write everything but the package's files into an existing folder; return the path of the module, which
        `hub run` takes.
        """
        module, _, environment = self.base.partition(":")
        names = {
            "about": _quoted(f"{self.title}, from {self.source}."),
            "folder": self.folder,
            "version": self.version,
            "environment": environment,
            "config": self.config,
        }
        lines = "".join(f'    "{name}": {value!r},\n' for name, value in sorted(self.settings.items()))
        distribution = {"module": self.module, "distribution": self.distribution}
        texts = {
            f"{self.module}.py": _MODULE.format(**names, module=module, settings=lines),
            FILE_NAME: self.manifest,
            "pyproject.toml": _PROJECT.format(**names, **distribution),
            ".hubignore": _IGNORED.format(folder=self.folder),
            "README.md": f"# {self.name}\n\n{self.readme}",
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return folder / f"{self.module}.py"


def is_part(name: object) -> bool:
    """Whether a name that foreign code or files chose can be that of a file or a folder, wherever that stands."""
    return isinstance(name, str) and _PART.fullmatch(name) is not None


def _quoted(text: str) -> str:
    """A text of strangers on one line, for the inside of a docstring, which it cannot end."""
    return one_line(text).replace("\\", "\\\\").replace('"', '\\"')


def package_name(identity: Identity, folder: str) -> str:
    """The default name of a package, derived from its folder's name."""
    last = re.sub(r"[^a-z0-9]+", "-", folder.lower()).strip("-") or "imported"
    return identity.name or f"local/{last}"
