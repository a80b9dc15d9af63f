"""Files that appear only when they are complete."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from envhub.errors import StoreError


@contextmanager
def complete_file(out: Path) -> Generator[Path]:
    """A path to write, which becomes `out` when the block ends well; a device or pipe is written itself.

    Raises:
        StoreError: the file could not be written.
    """
    out = out.resolve()  # a link stays, and what it leads to is replaced
    if out.is_dir():
        raise StoreError(f"could not export to {out}: it is a folder; name a file in it")
    if not out.parent.is_dir():
        raise StoreError(f"could not export to {out}: there is no folder {out.parent}; make it first")
    is_device = out.exists() and not out.is_file()
    partial = out if is_device else out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        yield partial
        if not is_device:
            partial.replace(out)
    except OSError as error:
        raise StoreError(f"could not export to {out}: {error.strerror or error}") from error
    finally:
        if not is_device:
            partial.unlink(missing_ok=True)
