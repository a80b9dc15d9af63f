"""Builds the wheel of a Python environment outside its source folder."""

import os
import shutil
import subprocess
import tomllib
from collections.abc import Iterable
from pathlib import Path

from rollouthub.processes import PYTHON
from rollouthub_registry.bundle.bundle_error import BundleRefused
from rollouthub_registry.bundle.file_selection import SourceFile

SECONDS = 600
"""Most seconds for a build, which may have to download its build backend."""
_PASSED_ON = ("PATH", "HOME", "LANG", "SYSTEMROOT", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY")
_PASSED_PREFIXES = ("PIP_", "SSL_CERT_")


def needs_wheel(folder: Path) -> bool:
    """Whether the folder is a Python package whose wheel must be built.

    Raises:
        BundleRefused: its pyproject.toml cannot be read.
    """
    file = folder / "pyproject.toml"
    if not file.is_file():
        return False
    try:
        with file.open("rb") as source:
            return "project" in tomllib.load(source)
    except (OSError, ValueError) as error:
        raise BundleRefused(f"{file} cannot be read: {error}") from error


def build_wheel(sources: Iterable[SourceFile], scratch: Path) -> Path:
    """Build the wheel from copies of the bundled files, so that no other file can get into it.

    The build backend runs in an environment of its own, without the hub's packages and environment variables.

    Raises:
        BundleRefused: the build fails; the message holds the end of its output.
    """
    tree, out = scratch / "source", scratch / "wheels"
    for source in sources:
        target = tree / source.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source.file, target)
        target.chmod(0o755 if source.is_executable else 0o644)
    try:
        done = subprocess.run(
            [*PYTHON, "-m", "build", "--wheel", "--outdir", str(out), str(tree)],
            cwd=scratch,
            env=_variables(scratch),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise BundleRefused(f"building the wheel took longer than {SECONDS} s") from error
    wheels = sorted(out.glob("*.whl")) if out.is_dir() else []
    if done.returncode or len(wheels) != 1:
        said = "\n".join(done.stdout.decode(errors="replace").strip().splitlines()[-15:])
        raise BundleRefused(
            f"the wheel could not be built (`python -m build --wheel` ended with {done.returncode}); mend this, or"
            f" put one into wheel/ yourself:\n{said}"
        )
    return wheels[0]


def _variables(scratch: Path) -> dict[str, str]:
    """The environment variables of a build; its temporary files go to the scratch folder, which is removed
    afterwards.
    """
    kept = {
        key: value
        for key, value in os.environ.items()
        if key.upper() in _PASSED_ON or key.upper().startswith(_PASSED_PREFIXES)
    }
    temporary = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(scratch))
    return {**kept, **temporary, "SOURCE_DATE_EPOCH": "315532800", "PYTHONHASHSEED": "0"}
