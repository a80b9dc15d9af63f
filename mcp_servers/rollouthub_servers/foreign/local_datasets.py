"""Data sets of the Hugging Face Hub, read from the copies that a user named; and why foreign code does not load.

Runs in the foreign process.
"""

# The library is installed in the foreign environment alone.
# pyright: basic

import re
import socket
import sys
from collections.abc import Callable
from typing import Any

from rollouthub_servers.foreign.code_failures import SHOWN

_HOST = re.compile(r"host='([\w.-]{1,100})'|https?://([\w.-]{1,100})")
_UNREACHED = re.compile(r"Couldn't reach '([^']{1,100})'")


def use_local(folders: "dict[str, str]", *users: str) -> None:
    """Have `load_dataset` read the folders that were given in place of the names, there and in the packages `users`."""
    if not folders:
        return
    import datasets

    own: Callable[..., Any] = datasets.load_dataset

    def load_dataset(path: str, *args: Any, **named: Any) -> Any:
        return own(folders.get(path, path), *args, **named)

    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("datasets", *users) and getattr(module, "load_dataset", None) is own:
            module.load_dataset = load_dataset  # type: ignore[attr-defined]


def reason_of(error: BaseException) -> str:
    """Why foreign code does not load, in a line: what was raised first of all that led there."""
    host: str | None = None
    while (below := error.__cause__ or error.__context__) is not None:
        if _UNREACHED.search(str(error)):
            break
        if host is None and (found := _HOST.search(str(error))):
            host = found[1] or found[2]
        error = below
    if isinstance(error, socket.gaierror):
        return f"it reads from {host or 'a server'} while it is loaded, and there is no network"
    said = f"{type(error).__name__}: {error}"[:SHOWN]
    name = _UNREACHED.search(said)
    if name is not None:
        setting = f'--set \'datasets={{"{name[1]}": "FOLDER"}}\''
        return f"it reads the data set {name[1]!r}, which is not here; give a copy: {setting}"
    if "api_key" in said or "_API_KEY" in said:
        return f"it asks a model itself, such as a judge, and none is given to it here ({said})"
    return said
