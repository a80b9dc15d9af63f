"""Files that an agent may have planted to manipulate the tests, found by name among the paths that a snapshot changed.

They are taken out before the tests run: a file of the image is restored, any other is removed. An agent that can write
to the file system as root can still mislead tests that use its programs (a patched interpreter, an installed plugin).
The number of changed system files is recorded with the score, and a task that declares `artifacts` hands over nothing
else.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from rollouthub.sandbox import MIB, Sandbox, SandboxFileError

_PYTEST = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"})
_PYTEST_SECTION = re.compile(r"\s*\[\s*(?:tool:)?pytest\b")
_ABOVE_TESTS = frozenset({"/setup.cfg", "/pyproject.toml"})
"""Files in which pytest finds settings for `/tests`; in a project's own folder such files are part of the work."""
_START_MODULES = frozenset({"sitecustomize", "usercustomize"})
_START_CODE = re.compile(r"import[ \t]")
_RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig"})
"""Modules that, beside the work, would be imported in place of the installed ones."""
_MODULE_ENDS = (".py", ".pyc", ".so")
_LIBRARIES = frozenset({"site-packages", "dist-packages"})
_SHELL = frozenset({"sh", "bash", "dash", "busybox", "env", "rm", "mkdir", "chmod", "chown"})
"""Programs that run as root before the tests do."""
_PROGRAMS = frozenset({"bin", "sbin"})
_PRELOAD = "/etc/ld.so.preload"
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/etc/")
_BY_ENGINE = frozenset({"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"})
_MOST_BYTES = 256 * MIB


@dataclass(frozen=True)
class Planted:
    """The paths that were restored or removed before the tests ran."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    system_files: int = 0
    """Number of system files that differ from the image's, including those restored or removed."""


NOTHING = Planted()


def is_suspect(path: str) -> bool:
    """Whether a file at this path could run when the tests start; the content of some is examined later."""
    parts = PurePosixPath(path).parts
    name = parts[-1]
    if path in _ABOVE_TESTS or path == _PRELOAD or name in _PYTEST | {"tox.ini"}:
        return not (_LIBRARIES & set(parts))
    if name.endswith(_MODULE_ENDS) and not (_LIBRARIES & set(parts)):
        stem = name.partition(".")[0]
        if (parts[-2] if stem == "__init__" and len(parts) > 1 else stem) in _RUNNER:
            return True
    if name in _SHELL:
        return len(parts) > 1 and parts[-2] in _PROGRAMS
    if name.endswith(".pth"):
        return bool(_LIBRARIES & set(parts))
    return any(part.partition(".")[0] in _START_MODULES for part in parts)


def system_files(changed: Sequence[str]) -> list[str]:
    """The changed paths that belong to the system, without folders as far as the paths show that."""
    below = sorted(path for path in changed if path.startswith(_SYSTEM) and path not in _BY_ENGINE)
    return [path for path, after in zip(below, [*below, ""][1:], strict=True) if not after.startswith(f"{path}/")]


async def take_out(fresh: Sandbox, image: Sandbox | None, changed: Sequence[str], keeps_start_files: bool) -> Planted:
    """Restore or remove planted files in a fresh sandbox that started from a snapshot.

    `image` is a sandbox of the image alone, from which files are restored; it may be None if no path is suspect. The
    programs that remove files are restored first, and by the supervisor, so that no planted program is used.
    """
    suspects = [path for path in changed if is_suspect(path)]
    found = len(system_files(changed))
    if not suspects:
        return Planted(system_files=found)
    assert image is not None, "what is suspect is compared with the image"
    restored: list[str] = []
    removed: list[str] = []
    for path in sorted(suspects, key=lambda path: (path != _PRELOAD, PurePosixPath(path).name not in _SHELL, path)):
        if not await _does_count(fresh, path, keeps_start_files):
            continue
        data, mode = await _in_image(image, path)
        if data is not None:
            await fresh.write_file(path, data, mode=mode, user="0")
            restored.append(path)
        else:
            if path == _PRELOAD:
                await fresh.write_file(path, b"", user="0")
            removed.append(path)
    if removed:
        await fresh.exec(["/bin/rm", "-rf", "--", *removed], user="0", cwd="/", keeps_background=False)
        for path in removed:
            if await is_there(fresh, path):
                raise SandboxFileError(f"{path!r}, planted by the agent, could not be removed", "EBUSY")
    return Planted(tuple(restored), tuple(removed), found)


async def _does_count(fresh: Sandbox, path: str, keeps_start_files: bool) -> bool:
    name = PurePosixPath(path).name
    pattern = _PYTEST_SECTION if name == "tox.ini" else _START_CODE if name.endswith(".pth") else None
    if pattern is None:
        return True
    if keeps_start_files and pattern is _START_CODE:
        return False
    try:
        data = await fresh.read_file(path, max_bytes=MIB)
    except SandboxFileError as error:
        return error.reason != "ENOENT"
    return any(pattern.match(line) for line in _lines(data))


def _lines(data: bytes) -> list[str]:
    """The lines of a file, with Python's line ends, without a byte order mark."""
    return data.decode("utf-8-sig", errors="replace").splitlines()


async def _in_image(image: Sandbox, path: str) -> tuple[bytes | None, int]:
    """A file's content in the image, and its permissions; the content is None if it is not there."""
    try:
        data = await image.read_file(path, max_bytes=_MOST_BYTES)
        entries = await image.list_files(path)
    except SandboxFileError:
        return None, 0
    return data, next((entry.mode for entry in entries), 0o644)


async def is_there(sandbox: Sandbox, path: str) -> bool:
    """Whether a sandbox has a file or folder at this path."""
    try:
        await sandbox.list_files(path, max_entries=1)
    except SandboxFileError as error:
        return error.reason not in ("ENOENT", "ENOTDIR")
    return True
