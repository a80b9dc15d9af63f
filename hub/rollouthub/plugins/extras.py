"""Which of the hub's extras provides a module, and the command that installs it."""

import json
import re
import shlex
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_EXTRA = re.compile(r"""extra == ["']([\w-]+)["']""")


def extra_with(module: str) -> str | None:
    """The hub's smallest extra that installs a module; None where no extra does."""
    wanted = module.partition(".")[0].lower().replace("_", "-")
    sizes: dict[str, int] = {}
    having: list[str] = []
    for line in requires("rollouthub") or ():
        name = re.split(r"[\s\[<>=!~;(]", line, maxsplit=1)[0].lower().replace("_", "-")
        if found := _EXTRA.search(line):
            sizes[found[1]] = sizes.get(found[1], 0) + 1
            if name == wanted:
                having.append(found[1])
    return min(having, key=lambda extra: (extra == "dev", sizes[extra]), default=None)


def pip_install(extra: str) -> str:
    """Return the pip command that installs an extra of the hub.

    It is `pip install 'rollouthub[litellm]'`, or `pip install -e '.[litellm]'` where the hub is installed in place from
    a clone; outside the clone the command names the clone's path.
    """
    clone = _clone()
    if clone is None:
        return f"pip install 'rollouthub[{extra}]'"
    place = f"{'.' if clone == Path.cwd() else clone}[{extra}]"
    return f"pip install -e {shlex.quote(place)}"


def missing_module(error: ModuleNotFoundError) -> str:
    """What to do about a module that is not installed, with the extra that brings it, if one does."""
    extra = extra_with(error.name or "")
    said = str(error)
    return said if extra is None or "install" in said else f"{error.name} is not installed: {pip_install(extra)}"


def _clone() -> Path | None:
    """The folder of an editable installation of the hub; None where the installation is not editable."""
    about: Any = json.loads(distribution("rollouthub").read_text("direct_url.json") or "{}")
    is_in_place = about.get("dir_info", {}).get("editable", False)
    return Path(unquote(urlsplit(str(about["url"])).path)) if is_in_place else None
