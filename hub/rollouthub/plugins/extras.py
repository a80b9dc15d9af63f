"""What to install where something needs one of the hub's extras."""

import json
import re
import shlex
from importlib.metadata import distribution, requires
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

_EXTRA = re.compile(r"""extra == ["']([\w-]+)["']""")


def extra_with(module: str) -> str | None:
    """The smallest extra of the hub that brings a module; None where none does."""
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
    """The command that installs an extra of the hub, from where the hub itself was installed.

    `pip install 'rollouthub[litellm]'`; of a clone `pip install -e '.[litellm]'`, from elsewhere with its path.
    """
    clone = _clone()
    if clone is None:
        return f"pip install 'rollouthub[{extra}]'"
    place = f"{'.' if clone == Path.cwd() else clone}[{extra}]"
    return f"pip install -e {shlex.quote(place)}"


def _clone() -> Path | None:
    """The folder that the hub is installed from in place; None where it was copied."""
    about: Any = json.loads(distribution("rollouthub").read_text("direct_url.json") or "{}")
    is_in_place = about.get("dir_info", {}).get("editable", False)
    return Path(unquote(urlsplit(str(about["url"])).path)) if is_in_place else None
