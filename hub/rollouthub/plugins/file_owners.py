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


def untrusted_owner_of(*places: Path) -> int | None:
    """A user who is not trusted and owns one of these files or folders, or a link to one; None if nobody does."""
    for place in places:
        try:
            owners = {place.lstat().st_uid, place.stat().st_uid}
        except OSError:
            continue
        if strangers := owners - trusted_owners():
            return min(strangers)
    return None


def refuse_strangers(name: str, *files: str) -> None:
    """Refuse a name that is not spelled as a path if another user owns what lies in the working folder under it.

    `files` are names of files below it that matter, too.

    Raises:
        ConfigError: a plain name means something that another user put there.
    """
    if name.startswith((".", "/", "~")) or name.endswith("/"):
        return
    path = Path(name)
    stranger = untrusted_owner_of(path, *path.parents[:-1], *(path / file for file in files))
    if stranger is not None:
        raise ConfigError(
            f"{name!r} is the name of something in the working folder that user {stranger} owns, and you are "
            f"user {os.geteuid()}; write ./{name} if that is what you mean, or work in another folder"
        )
