"""Locates BFCL (a published wheel, or a folder with `bfcl_eval`), its requirements, and the program that runs it."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rollouthub.errors import ConfigError
from rollouthub.plugins.importers import ImportSource, Note
from rollouthub_servers.foreign.copied_folder import copy_folder
from rollouthub_servers.foreign.program import ForeignProgram
from rollouthub_servers.foreign.requirements import ForeignLock, foreign_home, lock_requirements

PACKAGE = "bfcl_eval"
CODE = "code"
_NEEDED = frozenset(
    {
        "filelock",
        "mpmath",
        "overrides",
        "python-dotenv",
        "rank-bm25",
        "tenacity",
        "tqdm",
        "tree-sitter",
        "tree-sitter-java",
        "tree-sitter-javascript",
        "numpy",
    }
)
"""The dependencies of BFCL that its checkers and simulated APIs import; it needs others only to call models."""
_DRIVER = "rollouthub_servers.bfcl.driver"
_AT_IMPORT = ("rollouthub_servers.bfcl.preparation", "rollouthub_servers.bfcl.reference_calls")


@dataclass(frozen=True)
class BfclSource:
    """The files of BFCL on this machine."""

    folder: Path
    """The folder that contains the package `bfcl_eval`."""
    lock: ForeignLock
    """A lock of the wheel and the Python version; dependencies are added by `locked`."""
    asked: tuple[str, ...]
    """Requirements that must be installed for BFCL."""
    revision: str | None

    @classmethod
    def of(cls, source: ImportSource, note: Note) -> "BfclSource":
        """Find BFCL, and download it if the source is a published wheel. Blocks.

        Raises:
            ConfigError: the source is not BFCL.
        """
        if source.kind == "requirement":
            home = foreign_home()
            wheel = home.wheel(source.text)
            folder = home.unpacked(wheel, note)
            revision = f"{wheel.name} {wheel.version}"
            lock = ForeignLock(python=_no_lock().python, wheel=wheel)
        else:
            folder, revision, lock = _package_in(source.folder), None, _no_lock()
        if not (folder / PACKAGE / "data").is_dir():
            raise ConfigError(f"{source.text!r} holds no {PACKAGE}/data; give bfcl-eval==VERSION, or its checkout")
        return cls(folder, lock, tuple(_asked(folder)), revision)

    @property
    def data(self) -> Path:
        """The folder with BFCL's rows."""
        return self.folder / PACKAGE / "data"

    def locked(self, note: Note) -> ForeignLock:
        """Resolve the requirements to a complete lock. Blocks for seconds."""
        chosen = lock_requirements(self.asked, note)
        return chosen.model_copy(update={"wheel": self.lock.wheel})

    def keep(self, data: Path, lock: ForeignLock) -> None:
        """Write the lock into a package's folder and, for a checkout, copy BFCL's code there."""
        if lock.wheel is None:
            copy_folder(
                self.folder / PACKAGE,
                data / CODE / PACKAGE,
                lambda folder, names: [name for name in names if not _is_code(Path(folder, name))],
                within=self.folder,
            )
        lock.write(data, CODE)


def program_of(
    folder: Path, lock: ForeignLock, note: Note, *, call_seconds: float, is_import: bool = False
) -> ForeignProgram:
    """The driver program over BFCL's code; its virtual environment is made if missing. Blocks."""
    return ForeignProgram(
        name="BFCL",
        python=foreign_home().python(lock.dependencies, note),
        module=_DRIVER,
        modules=_AT_IMPORT if is_import else (),
        arguments={"seconds": call_seconds},
        path=(folder,),
        variables={"BFCL_PROJECT_ROOT": ".", "OPENBLAS_NUM_THREADS": "1"},
    )


def code_of(data: Path, lock: ForeignLock) -> Path:
    """The folder that contains `bfcl_eval` for an imported package; downloads the wheel if missing, which blocks."""
    return data / CODE if lock.wheel is None else foreign_home().unpacked(lock.wheel)


def _no_lock() -> ForeignLock:
    from rollouthub_servers.foreign.requirements import PYTHON

    return ForeignLock(python=PYTHON)


def _is_code(path: Path) -> bool:
    return (path.is_dir() and path.name not in ("data", "__pycache__")) or path.suffix == ".py"


def _package_in(folder: Path) -> Path:
    """The folder that contains the package: this one, its parent, or the usual folder in a checkout of Gorilla."""
    for place in (folder, folder.parent, folder / "berkeley-function-call-leaderboard"):
        if (place / PACKAGE / "data").is_dir():
            return place
    return folder


def _asked(folder: Path) -> Sequence[str]:
    """BFCL's own requirements, limited to those needed here."""
    lines = _declared(folder)
    wanted = [Requirement(line) for line in lines]
    found = [each for each in wanted if canonicalize_name(each.name) in _NEEDED and each.marker is None]
    if missing := _NEEDED - {canonicalize_name(each.name) for each in found}:
        raise ConfigError(f"{folder} does not say which versions it takes of {', '.join(sorted(missing))}")
    return [str(each) for each in found]


def _declared(folder: Path) -> list[str]:
    project = folder / "pyproject.toml"
    if project.is_file():
        return list(tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("dependencies", ()))
    for metadata in folder.glob("bfcl_eval-*.dist-info/METADATA"):
        lines = metadata.read_text(encoding="utf-8").splitlines()
        return [line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: ")]
    raise ConfigError(f"{folder} has neither pyproject.toml nor METADATA, so its requirements are not known")
