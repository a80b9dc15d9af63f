"""The command that runs a script in the virtual environment of an import, with nothing of the hub."""

from pathlib import Path

from rollouthub_servers.foreign.requirements import LOCK_FILE, ForeignLock, foreign_home


def own_program(data: Path, script: Path, *arguments: str) -> list[str]:
    """`data` holds the import's lock. Beside the scripts lie modules that are called as those of Python are, such as
    `inspect`: with -P a script does not find them.
    """
    python = foreign_home().python(ForeignLock.read(data / LOCK_FILE).dependencies)
    return [str(python), "-P", str(script), *arguments]
