"""Selects the files changed by the agent that are graded, without tests and test settings, and copies them."""

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import PurePosixPath

from rollouthub.sandbox import File, Sandbox, folders_above
from rollouthub_servers.terminal.planted_files import is_suspect

_TEST = re.compile(r"(?:^|/)(?:tests?|testing)(?:/|$)|(?:^|/)test_[^/]*$|_tests?\.\w+$|(?:^|/)conftest\.py$")
_SETTINGS = frozenset({"pyproject.toml", "setup.cfg", "tox.ini", "pytest.ini", ".pytest.ini", "noxfile.py"})
_RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig"})
"""Modules that, in the repository's own folder, would be imported in place of the installed ones."""
_LEFTOVERS = frozenset({".git", ".venv", "__pycache__", ".pytest_cache", ".mypy_cache", ".tox", "node_modules"})

_AT_ONCE = 200
"""Most paths in one command, whose length is limited."""


def crossing(
    changed: Iterable[str], repository: str, hidden: Collection[str], expected: Collection[str]
) -> tuple[list[str], list[str]]:
    """The changed paths copied to the grading container (absolute), and those held back (below the repository).

    `hidden` paths, files and folders, come with the tests; `expected` paths are changed by the known solution, and are
    copied even if they are settings.
    """
    own = {_top(path) for path in expected if path}
    kept: list[str] = []
    held: list[str] = []
    for path in changed:
        if not path.startswith(f"{repository.rstrip('/')}/"):
            continue
        below = str(PurePosixPath(path).relative_to(repository))
        if _LEFTOVERS & set(PurePosixPath(below).parts) or below.endswith((".pyc", ".pyo")):
            continue
        is_settings = PurePosixPath(below).name in _SETTINGS and below not in expected
        is_runner = _top(below) in _RUNNER - own
        is_hidden = any(str(place) in hidden for place in (below, *PurePosixPath(below).parents))
        if is_hidden or _TEST.search(below) or is_settings or is_runner or is_suspect(path):
            held.append(below)
        else:
            kept.append(path)
    return kept, held


async def bring(fresh: Sandbox, kept: Sequence[File], removed: Sequence[str]) -> None:
    """Make an agent's changes in a fresh sandbox, even where a file replaces a folder or a folder a file."""
    paths = [f"/{file.path}" for file in kept]
    above = sorted(folders_above(paths))
    gone = [*removed, *paths]
    for script, each in (
        ('rm -rf -- "$@"', gone),
        ('for path; do if [ ! -d "$path" ]; then rm -f -- "$path"; fi; done', above),
    ):
        for start in range(0, len(each), _AT_ONCE):
            await fresh.exec(["/bin/sh", "-c", script, "change", *each[start : start + _AT_ONCE]], cwd="/")
    await fresh.place(kept, "/")


def _top(below: str) -> str:
    """The top-level module or folder of a path in the repository."""
    return PurePosixPath(below).parts[0].partition(".")[0]
