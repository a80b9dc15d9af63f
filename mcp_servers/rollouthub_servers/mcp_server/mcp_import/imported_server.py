"""`ImportedServer`: the server to import, and its portable form in an `env.toml`."""

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from rollouthub.errors import ConfigError

_PYTHON = re.compile(r"python(3(\.\d+)?)?")
_RUNNERS = {"npx": ("-p", "--package"), "bunx": ("-p", "--package"), "uvx": ("--from",)}
"""Program that downloads the package it runs → options that name the package, if it is not the first argument."""
_PINNED = re.compile(r"@?[^@\s]+(@|==)\d+(\.\d+)*[\w.+-]*")
_BY_DIGEST = re.compile(r"[^\s@]+@sha256:[0-9a-f]{64}")
_SCRIPT_BYTES = 1_000_000


@dataclass(frozen=True)
class ImportedServer:
    """The server to import: exactly one of a command, a URL and an image."""

    command: tuple[str, ...] = ()
    url: str | None = None
    token_variable: str | None = None
    image: str | None = None
    args: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    hidden_tools: tuple[str, ...] = ()


@dataclass(frozen=True)
class Said:
    """The server's declaration for env.toml."""

    server: dict[str, Any]
    """The section `server`, without its tools."""
    copied: tuple[Path, ...] = ()
    """Files to copy beside env.toml."""
    source: str | None = None
    """The package, image or URL of the server, for reference."""
    remarks: tuple[str, ...] = ()
    """Warnings on what would differ on another machine."""


def said(asked: ImportedServer) -> Said:
    """Make the declaration; starts nothing.

    Raises:
        ConfigError: not exactly one server is named, or its version is not pinned.
    """
    given = [name for name in ("command", "url", "image") if getattr(asked, name)]
    if len(given) != 1:
        raise ConfigError(
            f"name one server: a command after `--`, --url URL or --image IMAGE; given: {' and '.join(given) or 'none'}"
        )
    common: dict[str, Any] = {"hidden_tools": list(asked.hidden_tools)} if asked.hidden_tools else {}
    if asked.url is not None:
        if asked.requirements:
            raise ConfigError("--requirement is for a server that is started here, not for a --url")
        token = {"token_variable": asked.token_variable} if asked.token_variable else {}
        return Said({"url": asked.url, **token, **common}, source=asked.url)
    if asked.token_variable is not None:
        raise ConfigError("--token-variable goes with --url")
    if asked.requirements:
        common["requirements"] = list(asked.requirements)
    if asked.image is not None:
        if not _BY_DIGEST.fullmatch(asked.image):
            raise ConfigError(
                f"--image {asked.image!r} may be another tomorrow; name it by digest, as NAME@sha256:DIGEST "
                "(`docker inspect --format '{{json .RepoDigests}}' IMAGE` tells it)"
            )
        args = {"args": list(asked.args)} if asked.args else {}
        return Said({"image": asked.image, **args, **common}, source=asked.image)
    return _command(asked.command, common, asked.requirements)


def _command(words: tuple[str, ...], common: dict[str, Any], requirements: Sequence[str]) -> Said:
    package = _fetched(words)
    if words[0] == sys.executable or _PYTHON.fullmatch(words[0]):
        words = ("{python}", *words[1:])
    kept: list[str] = []
    copied: list[Path] = []
    remarks: list[str] = []
    for number, word in enumerate(words):
        file = Path(word)
        # A bare first word is a program on the PATH, whatever lies here under its name.
        is_here = (number > 0 or "/" in word) and file.is_file()
        if is_here and file.stat().st_size <= _SCRIPT_BYTES and _is_below(file, Path.cwd()):
            if any(other.name == file.name for other in copied):
                raise ConfigError(f"two files called {file.name!r} are named; rename one, since both would be copied")
            copied.append(file)
            kept.append("{folder}/" + file.name)
            continue
        kept.append(word)
        if PurePath(word.partition("=")[2] or word).is_absolute() or (number > 0 and file.is_dir()):
            remarks.append(
                f"{word!r} is a place on this machine; a file below the current folder would be copied, and {{folder}} "
                "and {workdir} are there everywhere"
            )
    if package is not None:
        remarks.append(
            f"{words[0]} fetches {package} anew for every episode, whose home folder is empty; a program that is "
            "installed starts faster, and without a network"
        )
    return Said({"command": kept, **common}, tuple(copied), package or ", ".join(requirements) or None, tuple(remarks))


def _fetched(words: Sequence[str]) -> str | None:
    """The package that a runner such as `npx` would download; None if the program is not a runner.

    Raises:
        ConfigError: the package has no pinned version.
    """
    runner = PurePath(words[0]).name
    if runner not in _RUNNERS:
        return None
    package: str | None = None
    rest = iter(words[1:])
    for word in rest:
        if word.partition("=")[0] in _RUNNERS[runner]:
            package = word.partition("=")[2] or next(rest, None)
            break
        if not word.startswith("-"):
            package = word
            break
    if package is None or not _PINNED.fullmatch(package):
        raise ConfigError(
            f"{runner} would fetch {package or 'something'!r} in whatever version there is that day, and scores would "
            f"not be of one server; name a version: {package or 'NAME'}@1.2.3"
        )
    return package


def _is_below(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())
