"""What to install where a command needs one of the hub's extras."""

import re
from importlib.metadata import requires

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
