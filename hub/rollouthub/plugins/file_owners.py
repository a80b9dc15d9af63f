"""Whose files are trusted, and bare names that a file of another user happens to have."""

import os
from pathlib import Path

from rollouthub.errors import ConfigError


def trusted_owners() -> frozenset[int]:
    """User ids whose files are trusted: this process's user, root and, as in git, the user who became root by
    `sudo`.
    """
    me = os.geteuid()
    before = os.environ.get("SUDO_UID", "") if me == 0 else ""
    return frozenset({me, 0, *([int(before)] if before.isdecimal() else [])})


def refuse_strangers(name: str, *files: str) -> None:
    """Refuse a name that is not spelled as a path if another user owns what lies in the working folder under it.

    `files` are names of files below it that matter, too.

    Raises:
        ConfigError: a plain name means something that another user put there.
    """
    if name.startswith((".", "/", "~")) or name.endswith("/"):
        return
    path = Path(name)
    for place in (path, *path.parents[:-1], *(path / file for file in files)):
        try:
            owners = {place.lstat().st_uid, place.stat().st_uid}
        except OSError:
            continue
        if strangers := sorted(owners - trusted_owners()):
            raise ConfigError(
                f"{name!r} is the name of something in the working folder that user {strangers[0]} owns, and you are "
                f"user {os.geteuid()}; write ./{name} if that is what you mean, or work in another folder"
            )
