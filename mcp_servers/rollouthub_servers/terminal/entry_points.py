"""Finds packages beside the work whose plug-ins the image's programs would load, as test runners do at their start."""

import configparser
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from rollouthub.sandbox import MIB, Sandbox, SandboxFileError

_PACKAGE = re.compile(r".+\.(?:dist-info|egg-info|egg)")
_PLACES = ("entry_points.txt", "EGG-INFO/entry_points.txt")
_PLAIN = frozenset({"console_scripts", "gui_scripts"})
"""Groups of entry points that are only programs' names."""
_MOST = 100


async def plugins(agent: Sandbox, changed: Sequence[str], folders: Iterable[str]) -> list[str]:
    """Changed packages that lie directly in one of the searched folders and offer plug-ins."""
    roots = {folder.rstrip("/") for folder in folders}
    packages = {
        place
        for path in changed
        for place in (path, *map(str, PurePosixPath(path).parents))
        if _PACKAGE.fullmatch(PurePosixPath(place).name) and place.rpartition("/")[0] in roots
    }
    found = sorted(packages)[_MOST:]
    for place in sorted(packages)[:_MOST]:
        for name in _PLACES:
            try:
                text = await agent.read_file(f"{place}/{name}", max_bytes=MIB)
            except SandboxFileError as error:
                if error.reason not in ("ENOENT", "ENOTDIR"):
                    found.append(place)
                continue
            if _offers(text.decode(errors="replace")):
                found.append(place)
    return sorted(set(found))


def _offers(text: str) -> bool:
    parser = configparser.ConfigParser(delimiters=("=",), strict=False, interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return True
    return not _PLAIN.issuperset(parser.sections())
