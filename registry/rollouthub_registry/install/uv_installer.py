"""Installs with uv."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from rollouthub.plugins.lock import LockedDependency
from rollouthub_registry.install.install_error import InstallRefused
from rollouthub_registry.install.install_home import interpreter
from rollouthub_registry.install.installer_process import run_installer
from rollouthub_registry.install.pinned_requirements import asked, checked, pinned
from rollouthub_registry.install.venv_contents import VenvContents

_WHEELS = ("--only-binary", ":all:")
_ANY_PYTHON = ("--python", sys.executable, "--python-version", "3.99")
"""A Python version newer than any that a wheel asks for."""
_HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})(?=\s|$)")


class Uv:
    """Runs the program `uv`; the user's settings and UV_ variables apply, those of project folders do not."""

    name: Literal["uv"] = "uv"

    def __init__(self, program: Path, environ: Mapping[str, str]) -> None:
        self._program, self._environ = program, environ

    def create(self, venv: Path) -> None:
        """See `Installer`."""
        # From the root, so that no folder above has a say.
        words = ("venv", "--no-project", "--python", sys.executable, venv.absolute())
        self._run("making a virtual environment", Path("/"), *words)

    def resolve(self, wanted: VenvContents, venv: Path, scratch: Path) -> tuple[LockedDependency, ...]:
        """See `Installer`."""
        (scratch / "asked.txt").write_text(asked(wanted), encoding="utf-8")
        _settle_settings(scratch)
        hashed = ("--generate-hashes", *_WHEELS, "--python", interpreter(venv), "--no-header", "--no-annotate")
        text = self._run("choosing its dependencies", scratch, "pip", "compile", *hashed, "asked.txt")
        return checked(wanted, _parsed(text, {wheel.name for wheel in wanted.wheels}))

    def install(
        self, wanted: VenvContents, dependencies: Sequence[LockedDependency], venv: Path, scratch: Path
    ) -> None:
        """See `Installer`."""
        (scratch / "pinned.txt").write_text(pinned(wanted, dependencies), encoding="utf-8")
        _settle_settings(scratch)
        strict = ("--no-deps", "--require-hashes", *_WHEELS, "--python", interpreter(venv))
        self._run("installing its dependencies", scratch, "pip", "install", *strict, "-r", "pinned.txt")

    def choose_one(self, requirement: str, scratch: Path) -> LockedDependency:
        """See `Installer`."""
        (scratch / "asked.txt").write_text(f"{requirement}\n", encoding="utf-8")
        _settle_settings(scratch)
        words = ("--generate-hashes", "--no-deps", *_WHEELS, *_ANY_PYTHON, "--no-header", "--no-annotate")
        text = self._run("choosing its version", scratch, "pip", "compile", *words, "asked.txt")
        return checked(VenvContents(), _parsed(text, set()))[0]

    def unpack(self, wheel: LockedDependency, folder: Path, scratch: Path) -> None:
        """See `Installer`."""
        (scratch / "pinned.txt").write_text(pinned(VenvContents(), (wheel,)), encoding="utf-8")
        _settle_settings(scratch)
        words = ("--no-deps", "--require-hashes", *_WHEELS, *_ANY_PYTHON, "--target", folder)
        self._run("unpacking its wheel", scratch, "pip", "install", *words, "-r", "pinned.txt")

    def _run(self, what: str, folder: Path, *words: str | Path) -> str:
        return run_installer([self._program, "--quiet", *words], folder, self._environ, f"{what} (by uv)")


def _settle_settings(scratch: Path) -> None:
    """Keep uv from looking for project settings in parent folders such as /tmp, which everybody may write to."""
    (scratch / "uv.toml").touch()


def _parsed(text: str, here: set[str]) -> Iterator[LockedDependency]:
    """Parse the output of `uv pip compile`, leaving out the local wheels."""
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        requirement, _, hashes = line.partition(" ")
        name, _, version = requirement.partition("==")
        name = name.partition("[")[0]
        if not version and name in here:
            continue
        if not version:
            raise InstallRefused(f"it needs {line.strip()[:200]!r}, which is no published wheel")
        yield LockedDependency(name=name, version=version, hashes=tuple(_HASH.findall(hashes)))
