"""Installs with pip, kept from starting any program, so that it cannot build or run what it installs."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rollouthub.plugins.lock import LockedDependency
from rollouthub.processes import PYTHON
from rollouthub_registry.install.install_error import InstallRefused
from rollouthub_registry.install.install_home import interpreter
from rollouthub_registry.install.installer_process import run_installer
from rollouthub_registry.install.pinned_requirements import asked, checked, pinned
from rollouthub_registry.install.venv_contents import VenvContents

# `--only-binary` does not bind what is at an address: pip would fetch and build it. What it builds, it builds in other
# processes; an audit hook forbids those. OSError is what pip takes for a program that is not there.
_GUARDED = """\
import runpy, sys

def forbid(event, args):
    if event in ("subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"):
        raise OSError(f"nothing is built or run at install: {args[0] if args else event}")

sys.argv[:] = sys.argv[1:]
sys.addaudithook(forbid)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
_WHEELS = ("--only-binary", ":all:", "--no-compile", "--root-user-action", "ignore", "--quiet")
_ANY_PYTHON = ("--no-deps", "--ignore-requires-python")


class Pip:
    """Runs the hub's own pip with the new environment's interpreter; the user's pip settings apply."""

    name: Literal["pip"] = "pip"

    def __init__(self, package: Path, environ: Mapping[str, str]) -> None:
        """`package` is the folder of pip's modules."""
        self._runner, self._environ = package / "__pip-runner__.py", environ

    def create(self, venv: Path) -> None:
        """See `Installer`."""
        command = [*PYTHON, "-I", "-m", "venv", "--without-pip", venv]
        run_installer(command, venv.parent, self._environ, "making a virtual environment")

    def resolve(self, wanted: VenvContents, venv: Path, scratch: Path) -> tuple[LockedDependency, ...]:
        """See `Installer`."""
        (scratch / "asked.txt").write_text(asked(wanted), encoding="utf-8")
        words = ("--dry-run", "--ignore-installed", "--report", "report.json", "-r", "asked.txt")
        self._run("choosing its dependencies", venv, scratch, *words)
        report = json.loads((scratch / "report.json").read_bytes())
        return checked(wanted, _parsed(report, {wheel.name for wheel in wanted.wheels}))

    def install(
        self, wanted: VenvContents, dependencies: Sequence[LockedDependency], venv: Path, scratch: Path
    ) -> None:
        """See `Installer`."""
        (scratch / "pinned.txt").write_text(pinned(wanted, dependencies), encoding="utf-8")
        words = ("--no-deps", "--require-hashes", "-r", "pinned.txt")
        self._run("installing its dependencies", venv, scratch, *words)

    def choose_one(self, requirement: str, scratch: Path) -> LockedDependency:
        """See `Installer`."""
        (scratch / "asked.txt").write_text(f"{requirement}\n", encoding="utf-8")
        words = ("--dry-run", "--ignore-installed", "--report", "report.json", *_ANY_PYTHON, "-r", "asked.txt")
        self._run_here("choosing its version", scratch, *words)
        report = json.loads((scratch / "report.json").read_bytes())
        return checked(VenvContents(), _parsed(report, set()))[0]

    def unpack(self, wheel: LockedDependency, folder: Path, scratch: Path) -> None:
        """See `Installer`."""
        (scratch / "pinned.txt").write_text(pinned(VenvContents(), (wheel,)), encoding="utf-8")
        words = ("--require-hashes", *_ANY_PYTHON, "--target", str(folder), "-r", "pinned.txt")
        self._run_here("unpacking its wheel", scratch, *words)

    def _run_here(self, what: str, scratch: Path, *words: str) -> None:
        program = [*PYTHON, "-I", "-c", _GUARDED, self._runner]
        run_installer([*program, "install", *_WHEELS, *words], scratch, self._environ, f"{what} (by pip)")

    def _run(self, what: str, venv: Path, scratch: Path, *words: str) -> None:
        program = [interpreter(venv), "-I", "-c", _GUARDED, self._runner]
        run_installer([*program, "install", *_WHEELS, *words], scratch, self._environ, f"{what} (by pip)")


def _parsed(report: Any, here: set[str]) -> Iterator[LockedDependency]:
    """Parse the output of `pip install --report` (pip.pypa.io/en/stable/reference/installation-report)."""
    for item in report["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if item["is_direct"]:
            if name.lower().replace("_", "-").replace(".", "-") in here:
                continue
            raise InstallRefused(f"it needs {name!r} from {item['download_info']['url']}, which is no published wheel")
        digest = _sha256(item["download_info"].get("archive_info", {}))
        yield LockedDependency(name=name, version=version, hashes=() if digest is None else (f"sha256:{digest}",))


def _sha256(archive: Any) -> str | None:
    """The SHA-256 of an archive in hexadecimal; pip before 23.1 gives it as `hash`, later versions in `hashes`."""
    kind, _, digest = str(archive.get("hash", "")).partition("=")
    return archive.get("hashes", {}).get("sha256") or (digest if kind == "sha256" else None)
