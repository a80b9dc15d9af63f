"""The paths that affect the programs that tests use: the system, interpreters, and files that are run automatically.

Tests are run with the image's own version of these. An agent's changes are found by their place, so that names or links
that the agent chose cannot hide them; which places an image has is read from the image alone (`image_look`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from rollouthub_servers.terminal.named_paths import NamedPaths, above, work_area
from rollouthub_servers.terminal.program_settings import (
    BESIDE,
    BESIDE_LIKE,
    CACHES,
    IN_HOME,
    INSTALLED,
    NOT_LISTED,
    QUIET,
    SERVICES,
    SYSTEM,
)
from rollouthub_servers.terminal.program_variables import Kind, Root
from rollouthub_servers.terminal.search_shadows import Shadows

_BY_ENGINE = frozenset({"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"})
_WORK = ("/usr/src/", "/usr/local/src/")


@dataclass(frozen=True)
class Protected:
    """The places of an image that contain its programs or affect them."""

    places: frozenset[str] = frozenset(SYSTEM)
    homes: frozenset[str] = frozenset({"/root", ""})
    """Homes, and the folders above the working directory, in which tools look for settings, too."""
    made: frozenset[str] = frozenset({"/root"})
    """Homes that exist in the image."""
    named: frozenset[str] = frozenset()
    """Paths that variables or settings of the image name; the instruction may ask for something below one of them."""
    had: frozenset[str] = frozenset()
    """Files and folders that the image has beside its system: in `/`, in top-level folders, and in homes."""
    workdir: str = "/"
    roots: Mapping[Root, frozenset[str]] = field(default_factory=dict[Root, frozenset[str]])
    """Folders of the work that programs search → the names that the image has in each."""
    modules: Mapping[Kind, frozenset[str]] = field(default_factory=dict[Kind, frozenset[str]])
    """What programs find in the image outside of these folders."""
    text: str = ""
    """The instruction and the tests."""
    asked: NamedPaths = field(default_factory=NamedPaths)
    """Paths in the instruction."""
    told: NamedPaths = field(default_factory=NamedPaths)
    """Paths in the instruction and the tests."""

    @cached_property
    def _ways(self) -> frozenset[str]:
        """The folders above all places and homes: if one of them became a link, the place would be elsewhere."""
        return frozenset(folder for place in self.places | self.made for folder in above(place)) | self.made

    @cached_property
    def _ways_of_work(self) -> frozenset[str]:
        """As `_ways`, for the folders of the work, which work may well make."""
        folders = {self.workdir, *self.named, *(path for path, _ in self.roots)}
        return frozenset(folders | {each for folder in folders for each in above(folder)}) - {"/"}

    @cached_property
    def _around(self) -> frozenset[str]:
        """The working directory and the folders above it, which are not protected for containing a place."""
        return frozenset(above(self.workdir)) | {self.workdir}

    @cached_property
    def _area(self) -> str | None:
        return work_area(self.workdir)

    @cached_property
    def _shadows(self) -> Shadows:
        return Shadows(self.roots, self.modules, self.text)

    def sort(self, changed: Sequence[str]) -> tuple[list[str], list[str]]:
        """The protected paths among the changed ones: those whose change should affect no result, and the others."""
        known_folders = {folder for path in changed for folder in above(path)}
        held = [path for path in changed if self._is_held(path, is_leaf=path not in known_folders)]
        held = list(dict.fromkeys([*held, *self._shadows.among(changed, known_folders)]))
        loud = [path for path in held if not self._is_quiet(path)]
        known = {*loud, *(folder for path in loud for folder in above(path))}
        return [path for path in held if path not in known], sorted(path for path in held if path in known)

    def _is_held(self, path: str, *, is_leaf: bool) -> bool:
        if is_leaf and path in self._ways_of_work:
            return True
        return self.holds(path) or self._is_beside_work(path) or self._is_of_image(path)

    def holds(self, path: str) -> bool:
        """Whether a changed path is in a protected place, or replaces a folder above one."""
        if path in _BY_ENGINE:
            return False
        chain = (*above(path), path)
        is_work = path.startswith(self.workdir.rstrip("/") + "/")
        for place in chain:
            is_named = place in self.named and not (is_work and place in self._around)
            if is_named and not self.asked.cover_below(place, path):
                return True
        if path.startswith(_WORK) or (path.startswith("/etc/") and path.split("/", 3)[2] in SERVICES):
            return False
        if path in self._ways:
            return True
        return any(
            (place in self.places and not (is_work and place in self._around)) or self._is_in_home(place)
            for place in chain
        )

    def _is_in_home(self, place: str) -> bool:
        folder, _, name = place.rpartition("/")
        if (name in IN_HOME or BESIDE_LIKE.fullmatch(name)) and folder in self.homes:
            return True
        home, _, last = folder.rpartition("/")
        return f"{last}/{name}" in IN_HOME and home in self.homes

    def _is_beside_work(self, path: str) -> bool:
        """Whether a tool would read the path by itself when it is started in a folder of the work."""
        folder = next((root for root in self._folders_of_work if path.startswith(f"{root}/")), None)
        if folder is None:
            return False
        parts = path.removeprefix(folder).strip("/").split("/")
        at = next((at for at, name in enumerate(parts) if name in BESIDE or BESIDE_LIKE.fullmatch(name)), None)
        return at is not None and not INSTALLED.intersection(parts[:at]) and parts[at] not in self.text

    @cached_property
    def _folders_of_work(self) -> Sequence[str]:
        return [self.workdir.rstrip("/"), *(path for path, _ in self.roots if path != "/")]

    def _is_of_image(self, path: str) -> bool:
        """Whether a path is of what the image has beside the work, and no text of the task names it."""
        parts = path.split("/")
        if parts[1] in NOT_LISTED or path in _BY_ENGINE or path.startswith(_WORK):
            return False
        if self._area is not None and (path == self._area or path.startswith(f"{self._area}/")):
            return False
        home = next((each for each in self.made if each and path.startswith(f"{each}/")), None)
        depth = 3 if home is None else home.count("/") + 2
        return "/".join(parts[:depth]) in self.had and not self.told.cover(path)

    def _is_quiet(self, path: str) -> bool:
        """Whether a change happens by itself, so that undoing it does not affect honest work."""
        if "/__pycache__" in path and path.endswith((".pyc", "/__pycache__")):
            return True
        if path.startswith(QUIET):
            return True
        return any(
            place.rpartition("/")[0] in self.homes
            and place.endswith(("/.cache", "/.npm"))
            and _is_of_itself(path, place)
            for place in (*above(path), path)
        )


def topmost(paths: Iterable[str]) -> list[str]:
    """The paths, sorted, without those below another of them."""
    found = set(paths)
    return sorted(path for path in found if not any(folder in found for folder in above(path)))


def _is_of_itself(path: str, cache: str) -> bool:
    below = path.removeprefix(cache).strip("/").partition("/")[0]
    return below in CACHES
