"""Atomic, durable writes in a registry's directory."""

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from pydantic import JsonValue

from rollouthub.errors import ConfigError, StoreError
from rollouthub.store.atomic_files import replace_file
from rollouthub_registry.names import Release
from rollouthub_registry.server.directory_layout import BUNDLE, FORMAT, STATEMENT, Layout
from rollouthub_registry.server.server_error import RegistryRequestRefused

_OF_THE_DISK = frozenset({"lost+found"})
"""Names in an empty directory that is the root of a file system."""


def open_layout(root: Path) -> Layout:
    """The layout of a registry's directory, which is created if it does not exist.

    Raises:
        ConfigError: it has other files, cannot be created or written, or has a newer format.
    """
    layout = Layout(root.absolute())
    check_can_become_registry(layout)
    try:
        for folder in (layout.packages, layout.namespaces, layout.incoming):
            folder.mkdir(parents=True, exist_ok=True)
        layout.lock.touch()
        if not layout.marker.exists():
            write_whole(layout.marker, json.dumps({"format": FORMAT}) + "\n")
        marker = layout.marker.read_bytes()
    except (OSError, StoreError) as error:
        raise ConfigError(f"a registry cannot be kept in {root}: {_reason(error)}") from error
    if not _is_known(marker):
        raise ConfigError(f"{layout.marker} names no format that this hub knows; upgrade the hub")
    return layout


def check_can_become_registry(layout: Layout) -> None:
    """Check that a directory is a registry, is empty, or does not exist, so that no other files are mixed with a
    registry's.

    Raises:
        ConfigError: it has other files, or cannot be read.
    """
    if any(path.exists() for path in (layout.marker, layout.packages, layout.index)):
        return  # a directory without the marker is an older hub's, or another process is making it right now
    try:
        held = sorted({path.name for path in layout.root.iterdir()} - _OF_THE_DISK)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(f"a registry cannot be kept in {layout.root}: {_reason(error)}") from error
    if held:
        raise ConfigError(
            f"{layout.root} is no registry: it has no {layout.marker.name} and is not empty (it holds {held[0]!r}); "
            "name the directory of a registry, an empty one, or one that is yet to be made"
        )


def _is_known(marker: bytes) -> bool:
    try:
        held: JsonValue = json.loads(marker)
    except ValueError:
        return False
    return isinstance(held, dict) and held.get("format") == FORMAT


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


@contextmanager
def locked(layout: Layout) -> Generator[None]:
    """Hold the registry's lock, which one thread of all processes has at a time, to change packages and namespaces."""
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def receiving(layout: Layout) -> Generator[Path]:
    """A new folder for an upload, removed on exit unless it was renamed.

    It is locked, which tells it from the folder of a process that died.
    """
    folder = layout.incoming / secrets.token_hex(16)
    with _disk(f"an upload cannot be kept in {layout.incoming}"), locked(layout):
        folder.mkdir(mode=0o755)
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)


def sweep(layout: Layout) -> int:
    """Remove the upload folders of processes that died; returns how many."""
    removed = 0
    with locked(layout):
        for folder in layout.incoming.iterdir():
            try:
                descriptor = os.open(folder, os.O_RDONLY)
            except FileNotFoundError:  # its publisher was done with it just now
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            else:
                shutil.rmtree(folder, ignore_errors=True)
                removed += 1
            finally:
                os.close(descriptor)
    return removed


def secure(folder: Path) -> None:
    """Flush a received version to the disk, before it is renamed to its place.

    Raises:
        StoreError: writing failed.
    """
    with _disk(f"{folder} cannot be written"):
        for name in (BUNDLE, STATEMENT):
            _sync(folder / name)
        _sync(folder)


def place(layout: Layout, folder: Path, release: Release) -> float:
    """Rename a received version to its place; returns the time in seconds since 1970. The caller must hold the lock.

    Raises:
        RegistryRequestRefused: the version exists.
        StoreError: writing failed.
    """
    target = layout.version(release)
    if target.exists():
        raise RegistryRequestRefused(
            409, f"{release} is published already, and a version never changes; raise the version"
        )
    with _disk(f"{release} cannot be published"):
        for parent in (target.parent.parent, target.parent):
            with suppress(FileExistsError):
                parent.mkdir()
                _sync(parent.parent)
        now = time.time_ns() // 1000  # to the microsecond, as the API tells it and is asked for it
        # When it was published, as everyone who makes an index of the directory will read it.
        os.utime(folder / STATEMENT, ns=(now * 1000, now * 1000))
        folder.rename(target)
        _sync(target.parent)
    return now / 1e6


def write_whole(path: Path, text: str, *, is_durable: bool = True) -> None:
    """Replace a small file atomically; with `is_durable`, flush it to the disk, too.

    Raises:
        StoreError: writing failed.
    """
    with _disk(f"{path} cannot be written"):
        replace_file(path, text.encode(), is_durable=is_durable)
        if is_durable:
            _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _disk(attempt: str) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{attempt}: {error.strerror or error}") from error
