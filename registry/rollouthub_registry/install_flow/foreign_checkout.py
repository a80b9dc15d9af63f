"""The files of one commit of a repository that an import is taken from; nothing of it runs."""

import hashlib
import os
import shutil
from collections.abc import Callable

import anyio
from filelock import FileLock

from rollouthub.errors import ConfigError
from rollouthub_registry.install.install_home import data_home
from rollouthub_registry.install_flow.argument import GitArgument, parse_source
from rollouthub_registry.install_flow.git_repository import check_out

_DIGITS = 24


def checkout(source: str, note: Callable[[str], None] = lambda _: None) -> str:
    """The folder of `git+URL@COMMIT#subdirectory=FOLDER`; fetched once, and kept. Blocks.

    Raises:
        ConfigError: it names no commit.
        UsageError: it cannot be had.
    """
    argument = parse_source(source)
    if not isinstance(argument, GitArgument):
        raise ConfigError(f"{source!r} names no commit; write git+https://HOST/REPOSITORY@COMMIT#subdirectory=FOLDER")
    folder = data_home(os.environ) / "foreign" / "git" / hashlib.sha256(argument.source.encode()).hexdigest()[:_DIGITS]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            note(f"fetching {argument.source}")
            scratch = folder.with_name(f".{folder.name}.partial")
            shutil.rmtree(scratch, ignore_errors=True)
            scratch.mkdir()
            try:
                anyio.run(check_out, argument, scratch)
                (scratch / "repository").rename(folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    return str(folder / argument.folder)
