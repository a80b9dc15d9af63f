"""`View`: what the server of an installed environment sees of this machine, by its manifest and its settings."""

import importlib.util
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.plugins.installed import Installation
from rollouthub.plugins.manifest import Manifest, load_manifest
from rollouthub.rollout import Opening

_KEPT = frozenset({"LANG", "LANGUAGE", "TZ", "TERM", "NO_COLOR", "LITELLM_MODE"})
_KEPT_STARTS = ("LC_", "LITELLM_LOCAL_")
_OF_A_NETWORK = frozenset({"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"})
_HOME = "home"
_INSTALLED = ("site-packages", "dist-packages")


@dataclass(frozen=True)
class View:
    """What a server sees beside the system's programs."""

    name: str
    """The environment's name, for messages."""
    readable: tuple[Path, ...]
    """Files and folders that it reads at their own paths."""
    imported: tuple[Path, ...]
    """Folders that its interpreter imports from, besides its own."""
    home: Path
    """Its private home, the only folder that outlives it; it is made if it is missing."""
    workdir: Path
    """The folder that it starts in. It holds nothing but what `readable` has of it."""
    openings: tuple[Opening, ...]
    """What it may reach, because it declares it."""

    def variables(self, environ: Mapping[str, str], declared: Mapping[str, str]) -> dict[str, str]:
        """The variables that it gets: of the language and the time zone, of a network that it has, and `declared`."""
        kept = {
            name: value
            for name, value in environ.items()
            if name in _KEPT
            or name.startswith(_KEPT_STARTS)
            or ("network" in self.openings and name.upper() in _OF_A_NETWORK)
        }
        ours = {"HOME": str(self.home), "TMPDIR": "/tmp", "USER": "environment", "LOGNAME": "environment"}
        paths = {"PYTHONPATH": os.pathsep.join(map(str, self.imported))} if self.imported else {}
        return {**kept, **ours, **paths, "PYTHONDONTWRITEBYTECODE": "1", **declared}


def view_of(installation: Installation, settings: Mapping[str, JsonValue], more: Sequence[Path] = ()) -> View:
    """What the server of an installed environment sees; `more` are further paths for it to read.

    Raises:
        ConfigError: its manifest cannot be read, or a setting names a folder that holds too much.
    """
    content, workdir = installation.file.parent.absolute(), _workdir()
    own = (content, installation.python.parent.parent.absolute())
    roots = () if installation.is_class else _import_roots()
    hub = () if installation.is_class else (Path(sys.prefix), *_packages(roots))
    return View(
        name=installation.target,
        readable=tuple(dict.fromkeys((*own, *hub, *more, *named_paths(settings, workdir)))),
        imported=roots,
        home=content.parent / _HOME,
        workdir=workdir,
        openings=_openings(load_manifest(installation.file)),
    )


def _openings(manifest: Manifest) -> tuple[Opening, ...]:
    """What an environment declares that its server reaches."""
    server, verifier = manifest.server, manifest.verifier
    has_url = any(section is not None and section.url is not None for section in (server, verifier))
    downloads = any(source.file is None for source in manifest.tasks.values())
    found: list[Opening] = []
    if manifest.network or has_url or downloads:
        found.append("network")
    if manifest.sandbox is not None or (server is not None and server.image is not None):
        found.append("engine")
    return tuple(found)


def _workdir() -> Path:
    try:
        return Path.cwd()
    except OSError:  # it was removed
        return Path("/")


def _import_roots() -> tuple[Path, ...]:
    """The folders of the hub's packages, and of others', where they lie outside its interpreter, as in a checkout."""
    packages = (Path(entry) for entry in sys.path if entry.startswith("/"))
    prefixes = (Path(sys.prefix), Path(sys.base_prefix))
    return tuple(
        root
        for root in dict.fromkeys(packages)
        if not any(root.is_relative_to(prefix) for prefix in prefixes)
        and (root.name in _INSTALLED or any(root.glob("rollouthub*/__init__.py")))
    )


def _packages(roots: Sequence[Path]) -> Iterator[Path]:
    """The hub's packages in folders to import from, and whole folders of installed ones."""
    yield from (root for root in roots if root.name in _INSTALLED)
    for root in roots:
        for file in sorted(root.glob("rollouthub*/__init__.py")):
            if importlib.util.find_spec(file.parent.name) is not None:
                yield file.parent


def named_paths(settings: Mapping[str, JsonValue], workdir: Path) -> list[Path]:
    """The files and folders of this machine that settings name, all of which an installed environment is shown.

    A text with a slash names what lies there, and one without a file of the working folder, not a folder.

    Raises:
        ConfigError: a text names a folder with the user's home in it.
    """
    found: list[Path] = []
    for text in _texts(list(settings.values())):
        if not text or len(text) > 4096 or "\0" in text or "://" in text:
            continue
        path = workdir / Path(text).expanduser() if text.startswith("~/") else workdir / text
        try:
            is_there = path.exists() if "/" in text else path.is_file()
        except OSError:  # too long a name, a folder that is closed
            continue
        if is_there:
            found.append(_checked(Path(os.path.normpath(path)), text))
    return found


def _checked(path: Path, text: str) -> Path:
    home, real = Path.home().resolve(), path.resolve()
    if home.is_relative_to(real):
        raise ConfigError(
            f"{text!r} holds your home, which no environment of others is shown; name a folder or a file in it, "
            "or run the environment without a wall: --trust"
        )
    return path


def _texts(values: Sequence[JsonValue]) -> Iterator[str]:
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
