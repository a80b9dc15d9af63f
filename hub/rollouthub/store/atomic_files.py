"""Writes files so that they appear only when they are complete."""

import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rollouthub.errors import ConfigError, StoreError


def check_output(out: Path) -> None:
    """Check beforehand that a file can be written at this path; an existing file is not changed.

    Raises:
        ConfigError: the path is a folder or read-only, or its folder is missing or not writable.
    """
    target = _target(out)
    if is_stream(target):
        return
    probe = _partial(target)
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(f"cannot write {out}: {error.strerror or error}; name another file") from error


@contextmanager
def complete_file(out: Path) -> Generator[Path]:
    """Yield a path to write to. It replaces `out` when the block ends without an error; a device or pipe is written
    directly.

    Raises:
        ConfigError: `out` cannot be written, see `check_output`; the block is not run.
        StoreError: the file could not be written.
    """
    check_output(out)
    target = _target(out)
    streams = is_stream(target)
    partial = target if streams else _partial(target)
    try:
        yield partial
        if not streams:
            partial.replace(target)
    except OSError as error:
        raise StoreError(f"could not write {out}: {error.strerror or error}") from error
    finally:
        if not streams:
            partial.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes, *, is_private: bool = False, is_durable: bool = False) -> None:
    """Write a small file at once; it replaces what is there, a link included.

    Only this user may read it where it `is_private`. Where it `is_durable`, it is flushed to the disk first.

    Raises:
        OSError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    mode = 0o600 if is_private else 0o666
    try:
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            file.write(content)
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _target(out: Path) -> Path:
    """The path to write: the target of a link, so that the link stays."""
    try:
        target = out.resolve()
        if target.is_dir():
            raise ConfigError(f"cannot write {out}: it is a folder; name a file in it")
        if not target.parent.is_dir():
            raise ConfigError(f"cannot write {out}: there is no folder {target.parent}; make it first")
        if target.exists() and not os.access(target, os.W_OK):
            raise ConfigError(f"cannot write {out}: it is read-only; name another file")
    except (OSError, RuntimeError) as error:  # no permission to look there, a name too long; links in a circle
        raise ConfigError(
            f"cannot write {out}: {getattr(error, 'strerror', None) or error}; name another file"
        ) from error
    return target


def is_stream(path: Path) -> bool:
    """Whether the path is a device or a pipe, which is written directly and never replaced."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _partial(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.partial")
