"""A temporary folder for downloads, removed when the installation ends."""

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from rollouthub.errors import ConfigError


@contextmanager
def scratch_folder() -> Generator[Path]:
    """A new temporary folder, removed on exit.

    Raises:
        ConfigError: it cannot be created.
    """
    try:
        folder = tempfile.TemporaryDirectory(prefix="rollouthub-", ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigError(
            f"no temporary folder can be made: {error.strerror or error}; set TMPDIR to another"
        ) from error
    with folder:
        yield Path(folder.name)
