"""Finds the full id of a rollout by a prefix."""

import difflib
from pathlib import Path
from typing import Any

from rollouthub.errors import UnknownNameError, UsageError

_SUGGESTIONS = 250


def full_id(connection: Any, wanted: str, directory: Path) -> str:
    """Return the full id of a rollout in a run's directory that starts with a prefix.

    Raises:
        UnknownNameError: no id starts with the prefix; the message names the nearest ids.
        UsageError: several ids start with the prefix.
    """
    found = connection.execute(
        "SELECT DISTINCT rollout_id FROM rollouts WHERE rollout_id >= ? AND rollout_id < ? ORDER BY rollout_id LIMIT 4",
        (wanted, wanted + "\U0010ffff"),
    ).fetchall()
    names: list[str] = [name for (name,) in found]
    if wanted in names or (wanted and len(names) == 1):
        return wanted if wanted in names else names[0]
    if wanted and names:
        listing = ", ".join(names[:3]) + (" …" if len(names) > 3 else "")
        raise UsageError(f"{len(names[:3])} or more rollouts begin with {wanted!r}: {listing}; give more of the id")
    near = connection.execute(
        "SELECT * FROM (SELECT DISTINCT rollout_id FROM rollouts WHERE rollout_id >= :wanted ORDER BY 1 LIMIT :most) "
        "UNION SELECT * FROM "
        "(SELECT DISTINCT rollout_id FROM rollouts WHERE rollout_id < :wanted ORDER BY 1 DESC LIMIT :most)",
        {"wanted": wanted, "most": _SUGGESTIONS},
    )
    names = [name for (name,) in near]
    # Of thousands of ids the nearest three say enough.
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.0)
    raise UnknownNameError("rollout", wanted, close, f"(in {directory})")
