"""Makes a wheel of the running hub's own files, so that an installed environment gets this hub without an index.

Works for an installed hub and for an editable checkout, without a build and without a network.
"""

import base64
import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from rollouthub.store.atomic_files import replace_file
from rollouthub_registry.bundle.bundle_error import BundleRefused

DISTRIBUTION = "rollouthub"
PACKAGES = (
    "rollouthub",
    "rollouthub_agents",
    "rollouthub_registry",
    "rollouthub_sandboxes",
    "rollouthub_servers",
    "rollouthub_tui",
)
_KEPT_SECONDS = 7 * 24 * 3600
_EPOCH = (1980, 1, 1, 0, 0, 0)
_WHEEL = "Wheel-Version: 1.0\nGenerator: rollouthub\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def hub_wheel(environ: Mapping[str, str]) -> Path:
    """The running hub's wheel, in the user's cache; the same files give the same bytes at the same path.

    Raises:
        BundleRefused: its files cannot be found, read or written.
    """
    try:
        hub = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        raise BundleRefused(f"the hub's distribution {DISTRIBUTION!r} is not found; reinstall it") from None
    try:
        name, content = _made(hub)
        folder = cache_folder(environ) / "hub-wheels" / hashlib.sha256(content).hexdigest()[:32]
        wheel = _put(content, folder / name)
        _prune(folder)
        return wheel
    except OSError as error:
        raise BundleRefused(f"the hub cannot be made a wheel: {error.filename}: {error.strerror}") from error


def cache_folder(environ: Mapping[str, str]) -> Path:
    """The hub's folder in the user's cache."""
    given = environ.get("XDG_CACHE_HOME") or ""
    home = Path(environ.get("HOME") or Path.home())
    return (Path(given) if given.startswith("/") else home / ".cache") / "rollouthub"


def _made(hub: Distribution) -> tuple[str, bytes]:
    start = f"{DISTRIBUTION}-{hub.version}"
    info, sink, record = f"{start}.dist-info", io.BytesIO(), list[str]()
    metadata = hub.read_text("METADATA")
    if metadata is None:
        raise BundleRefused(f"the distribution {DISTRIBUTION!r} has no METADATA; reinstall it")
    # Stored: made in a blink, and the cache keeps but a few.
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:

        def add(path: str, content: bytes, is_executable: bool = False) -> None:
            entry = zipfile.ZipInfo(path, _EPOCH)
            entry.create_system, entry.external_attr = 3, (0o100755 if is_executable else 0o100644) << 16
            archive.writestr(entry, content)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record.append(f"{path},sha256={digest},{len(content)}")

        for path, file in _files():
            add(path, file.read_bytes(), is_executable=os.access(file, os.X_OK))
        add(f"{info}/METADATA", metadata.encode())
        add(f"{info}/WHEEL", _WHEEL.encode())
        add(f"{info}/entry_points.txt", (hub.read_text("entry_points.txt") or "").encode())
        add(f"{info}/RECORD", "\n".join([*record, f"{info}/RECORD,,", ""]).encode())
    return f"{start}-py3-none-any.whl", sink.getvalue()


def _files() -> Iterator[tuple[str, Path]]:
    """The hub's files in a fixed order, without bytecode and hidden folders."""
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            raise BundleRefused(f"the hub's package {package!r} is not found where the hub runs; reinstall rollouthub")
        root = Path(spec.submodule_search_locations[0])
        for folder, folders, names in os.walk(root):
            folders[:] = sorted(each for each in folders if each != "__pycache__" and not each.startswith("."))
            for name in sorted(names):
                if not name.endswith((".pyc", ".pyo")):
                    file = Path(folder, name)
                    yield f"{package}/{file.relative_to(root).as_posix()}", file


def _prune(used: Path) -> None:
    """Remove cached wheels that no install used for a week; a hub under development makes a new one at every change."""
    os.utime(used)
    for folder in used.parent.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another's prune was quicker
            if folder.stat().st_mtime < used.stat().st_mtime - _KEPT_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)


def _put(content: bytes, file: Path) -> Path:
    """Write `content` to `file` at once, unless the file has this content already."""
    with contextlib.suppress(FileNotFoundError):
        if file.read_bytes() == content:
            return file
    file.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, content)
    return file
