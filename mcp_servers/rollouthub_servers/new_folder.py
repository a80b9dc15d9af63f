"""`new_folder`: the folder that an import writes, whole or not at all."""

import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rollouthub.errors import ConfigError


@contextmanager
def new_folder(out: Path) -> Generator[Path]:
    """Yield a temporary folder, which becomes `out` when the block ends without an error; otherwise nothing is left.

    Raises:
        ConfigError: `out` is not empty, or cannot be written.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise ConfigError(f"-o {str(out)!r} is there already; name a new folder")
    partial = out.resolve().with_name(f".{out.resolve().name}.{secrets.token_hex(8)}.partial")
    try:
        partial.mkdir(parents=True)
        yield partial
        if out.exists():
            out.rmdir()
        partial.rename(out)
    except OSError as error:
        raise ConfigError(f"-o {str(out)!r} cannot be written: {error.strerror or error}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
