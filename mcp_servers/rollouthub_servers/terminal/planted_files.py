"""What an agent may have planted in its file system to speak for the tests: found by name in what a snapshot changed.

It is taken out before the tests run: a file of the image's is put back as the image has it, any other is removed. A
file system that an agent could write as root can still mislead tests that use its programs (a patched interpreter, an
installed plugin); how many of the system's files changed is told with the score, and a task that declares its
`artifacts` hands over nothing else.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from rollouthub.sandbox import MIB, Sandbox, SandboxFileError

_PYTEST = frozenset({"conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml"})
_PYTEST_SECTION = re.compile(r"\s*\[\s*(?:tool:)?pytest\b")
_ABOVE_TESTS = frozenset({"/setup.cfg", "/pyproject.toml"})
"""Where pytest finds settings for `/tests`; in a project's own folder such files are part of the work."""
_START_MODULES = frozenset({"sitecustomize", "usercustomize"})
_START_CODE = re.compile(r"import[ \t]")
_RUNNER = frozenset({"pytest", "_pytest", "pluggy", "iniconfig"})
"""Modules that, beside the work, would run in place of the installed ones."""
_MODULE_ENDS = (".py", ".pyc", ".so")
_LIBRARIES = frozenset({"site-packages", "dist-packages"})
_SHELL = frozenset({"sh", "bash", "dash", "busybox", "env", "rm", "mkdir", "chmod", "chown"})
"""What runs as root before the tests do."""
_PROGRAMS = frozenset({"bin", "sbin"})
_PRELOAD = "/etc/ld.so.preload"
_SYSTEM = ("/usr/", "/bin/", "/sbin/", "/lib", "/etc/")
_BY_ENGINE = frozenset({"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"})
_MOST_BYTES = 256 * MIB


@dataclass(frozen=True)
class Planted:
    """What was taken out before the tests ran."""

    restored: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    system_files: int = 0
    """Files of the system that differ from the image's, those taken out included."""


NOTHING = Planted()
_GIT_CONFIG = frozenset({"config", "config.worktree"})
_GIT_RUNS = re.compile(
    rb"(?im)^\s*(?:\[\s*(?:alias|filter|diff|merge|credential|include|includeif|gpg|pager|sequence|uploadpack)\b|"
    rb"(?:fsmonitor|hookspath|pager|editor|sshcommand|askpass|gitproxy|alternaterefscommand|worktree|helper|textconv|"
    rb"command|driver|program|clean|smudge|process|path)\s*=)"
)
"""What of a repository's settings names a program, or more settings."""
_MOST_CONFIGS = 100


async def git_programs(agent: Sandbox, changed: Sequence[str]) -> list[str]:
    """Changed settings and hooks of repositories that have git run a program, whatever it is asked for."""
    hooks = [path for path in changed if "/hooks/" in path and ".git/" in path and not path.endswith(".sample")]
    found: list[str] = []
    for path in [path for path in changed if PurePosixPath(path).name in _GIT_CONFIG][:_MOST_CONFIGS]:
        try:
            data = await agent.read_file(path, max_bytes=MIB, follows_links=False)
        except SandboxFileError as error:
            if error.reason != "ENOENT":
                found.append(path)
            continue
        if _GIT_RUNS.search(data):
            found.append(path)
    return [*hooks, *found]


def is_suspect(path: str) -> bool:
    """Whether a changed path could run when the tests start; some are looked into before they are taken out."""
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
    """Those of the changed paths that are the system's, folders left out as far as their paths tell."""
    below = sorted(path for path in changed if path.startswith(_SYSTEM) and path not in _BY_ENGINE)
    return [path for path, after in zip(below, [*below, ""][1:], strict=True) if not after.startswith(f"{path}/")]


async def take_out(fresh: Sandbox, image: Sandbox | None, changed: Sequence[str], keeps_start_files: bool) -> Planted:
    """Take what was planted out of a fresh sandbox that started from a snapshot.

    `image` is a sandbox of the image alone, to restore from; it may be None where nothing is suspect. The programs
    that remove files are restored first, and by the supervisor, so that no planted one takes part.
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
            if await _is_there(fresh, path):
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
    """The lines of a file by whatever Python takes for a line's end, a byte order mark left out."""
    return data.decode("utf-8-sig", errors="replace").splitlines()


async def _in_image(image: Sandbox, path: str) -> tuple[bytes | None, int]:
    """A file as the image has it, and its permissions; None where it has none there."""
    try:
        data = await image.read_file(path, max_bytes=_MOST_BYTES)
        entries = await image.list_files(path)
    except SandboxFileError:
        return None, 0
    return data, next((entry.mode for entry in entries), 0o644)


async def _is_there(sandbox: Sandbox, path: str) -> bool:
    try:
        await sandbox.list_files(path, max_entries=1)
    except SandboxFileError as error:
        return error.reason not in ("ENOENT", "ENOTDIR")
    return True
