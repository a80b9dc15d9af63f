"""Files left out of a bundle: built-in defaults, then `.hubignore` in the syntax of `.gitignore`."""

from pathlib import Path

from pathspec import GitIgnoreSpec

from rollouthub_registry.bundle.bundle_error import BundleRefused

IGNORE_FILE = ".hubignore"
OLD_IGNORE_FILE = ".envhubignore"
"""Name of the file before the hub was renamed to rollouthub; read only if the new one does not exist."""
DEFAULTS = (
    ".git",
    ".hg/",
    ".svn/",
    ".venv/",
    "venv/",
    "__pycache__/",
    "*.py[co]",
    ".mypy_cache/",
    ".pytest_cache/",
    ".pyright/",
    ".ruff_cache/",
    ".hypothesis/",
    ".tox/",
    ".nox/",
    "node_modules/",
    "*.egg-info/",
    ".DS_Store",
    "Thumbs.db",
    ".idea/",
    ".vscode/",
    "*.swp",
    "*~",
    "*.envhub",
    "/build/",
    "/dist/",
    "/runs/",
)


class Ignored:
    """Decides which paths of one folder are left out of the bundle."""

    def __init__(self, folder: Path) -> None:
        """Read the folder's `.hubignore`, if there is one.

        Raises:
            BundleRefused: the file cannot be read.
        """
        file = folder / IGNORE_FILE
        if not file.is_file():
            file = folder / OLD_IGNORE_FILE
        try:
            own = file.read_text("utf-8").splitlines() if file.is_file() and not file.is_symlink() else []
            self._spec = GitIgnoreSpec.from_lines([*DEFAULTS, *own])
        except (OSError, ValueError) as error:
            raise BundleRefused(f"{file} cannot be read as patterns like a .gitignore's: {error}") from error

    def matches_file(self, path: str) -> bool:
        """Whether a file is left out."""
        return self._spec.match_file(path)

    def matches_folder(self, path: str, folder: Path) -> bool:
        """Whether a folder is left out with all its content; a virtual environment always is."""
        return self._spec.match_file(path + "/") or (folder / "pyvenv.cfg").is_file()
