"""What a process behind a wall says of errors that the wall may be the cause of."""

import errno
import os

from rollouthub.errors import describe

VARIABLE = "ROLLOUTHUB_WALL"
"""Set in a process behind a wall: its kind, and after it what the process may reach."""
_KEPT_AWAY = frozenset({
    *(errno.ENOENT, errno.EACCES, errno.EPERM, errno.EROFS, errno.ESRCH),
    *(errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ECONNREFUSED, errno.EADDRNOTAVAIL, errno.ENETDOWN),
})  # fmt: skip
_NO_NAME = "gaierror"


def has_engine() -> bool:
    """Whether this process may reach a container engine: without a wall, or with that opening in it."""
    said = os.environ.get(VARIABLE, "").split()
    return not said or "engine" in said


def describe_behind(error: BaseException) -> str:
    """An error of an environment's code in one line, with what the wall around it may have to do with it."""
    return describe(error) + _wall_hint(error)


def _wall_hint(error: BaseException) -> str:
    """What to add to the message of an error in an environment's code, where the wall around it may be the cause."""
    said = os.environ.get(VARIABLE, "")
    if not said or not any(_is_kept_away(each) for each in _chain(error)):
        return ""
    kind, *openings = said.split()
    reached = f"; beyond it is {' and '.join(openings)}" if openings else ""
    return (
        f" [behind a wall: {kind}{reached}. It keeps this environment from your files, variables and processes"
        f"{'' if 'network' in openings else ' and from the network'}; env.toml declares what it needs]"
    )


def _is_kept_away(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return error.errno in _KEPT_AWAY or type(error).__name__ == _NO_NAME
    return isinstance(error, KeyError) and error.args[:1] != () and str(error.args[0]).isupper()


def _chain(error: BaseException) -> list[BaseException]:
    """An error and those that it came from, at most ten."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found and len(found) < 10:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found
