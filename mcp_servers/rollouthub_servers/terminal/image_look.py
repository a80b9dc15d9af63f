"""Reads from an untouched image which places its programs are in, and where they look for what they load."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rollouthub.errors import SandboxError
from rollouthub.sandbox import MIB, Sandbox
from rollouthub_servers.terminal.named_paths import NamedPaths, above, work_area
from rollouthub_servers.terminal.program_settings import (
    NOT_LISTED,
    OF_PREFIX,
    ORDINARY,
    SETTINGS_FILES,
    SETTINGS_IN_HOME,
    SYSTEM,
)
from rollouthub_servers.terminal.program_variables import (
    Kind,
    Root,
    assigned,
    does_count,
    filled,
    is_folder_name,
    joined,
    kind_of,
    option_roots,
    paths_in,
    places,
    searched,
)
from rollouthub_servers.terminal.protected_paths import Protected

_LOOK = """
home() { printf 'home %s\\n' "$1"; [ -d "$1" ] && printf 'made %s\\n' "$1"; }
home "$HOME"
while IFS=: read -r name word uid gid about home shell; do home "$home"; done </etc/passwd
names() { (cd "$2" 2>/dev/null && for each in * .[!.]*; do [ -e "$each" ] && printf '%s %s\\n' "$1" "$each"; done); }
below() { (cd "$3" 2>/dev/null && find . -name "$2" 2>/dev/null | sed "s|^[.]/|$1 |"); }
for each in /* /.[!.]*; do [ -f "$each" ] && [ ! -h "$each" ] && printf 'had %s\\n' "$each"; done
for top in /*; do
    case $top in /bin | /sbin | /lib* | /usr | /etc | /dev | /proc | /sys | /.rollouthub) continue;; esac
    [ -h "$top" ] || for each in "$top"/*; do [ -e "$each" ] && printf 'had %s\\n' "$each"; done
done
for each in /home/*/*; do [ -e "$each" ] && printf 'had %s\\n' "$each"; done
find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /usr -o -path /.rollouthub \\) -prune -o \\
    \\( -name pyvenv.cfg -o -name conda-meta -o -name site-packages -o -name dist-packages -o -name node_modules \\
    -o -path '*/vendor/autoload.php' -o -path '*/vendor/modules.txt' -o -path '*/vendor/bundle' \\) \\
    -print 2>/dev/null | while read -r place; do
        printf 'found %s\\n' "$place"
        case $place in
            *-packages)
                for each in "$place" "${place%/*}" "${place%/*}/lib-dynload"; do names python "$each"; done
                cat "$place"/*.pth 2>/dev/null | sed 's/^/pth /';;
            */node_modules) names node "$place";;
            */pyvenv.cfg) sed -n 's/^home *= */base /p' "$place";;
        esac
    done
for place in /usr/lib/python3* /usr/local/lib/python3*; do
    for each in "$place" "$place"/lib-dynload "$place"/*-packages; do names python "$each"; done
done
cat /usr/lib/python3*/*-packages/*.pth /usr/local/lib/python3*/*-packages/*.pth 2>/dev/null | sed 's/^/pth /'
IFS=:; for place in $PATH; do names program "$place"; done; IFS='
'
for place in $(env -u PERL5LIB -u PERLLIB -u PERL5OPT perl -e 'print "$_\\n" for @INC' 2>/dev/null); do
    below perl '*.p[lm]' "$place"
done
for place in $(env -u RUBYLIB -u RUBYOPT ruby -e 'puts $LOAD_PATH, Gem.path.map { |each| Dir["#{each}/gems/*/lib"] }' \\
    2>/dev/null); do below ruby '*.rb' "$place"; done
for place in /usr/share/lua/* /usr/local/share/lua/* /usr/lib/*/lua/*; do below lua '*.lua' "$place"; done
for place in /usr/lib/node_modules /usr/local/lib/node_modules /usr/share/nodejs; do names node "$place"; done
for place in /usr/lib/R/library /usr/lib/R/site-library /usr/local/lib/R/*library; do names r "$place"; done
find /usr/include /usr/include/*-linux-* /usr/include/c++/* /usr/lib/gcc/*/*/include -maxdepth 2 -type f 2>/dev/null |
    sed 's|^.*/include/||; s|^[a-z0-9_]*-linux-[a-z]*/||; s|^c++/[0-9.]*/||; s|^|header |'
for place in /lib/*-linux-* /usr/lib /usr/lib/*-linux-* /usr/local/lib; do names library "$place"; done
for place in /usr/lib/pkgconfig /usr/lib/*/pkgconfig /usr/share/pkgconfig; do names package "$place"; done
for place in /usr/share/cmake*/Modules /usr/lib/cmake/* /usr/lib/*/cmake/*; do names cmake "$place"; done
for place in $(printf '%s' "$PATH" | tr : '\\n'); do
    case $place in /bin | /sbin | /usr/bin | /usr/sbin) continue;; esac
    for each in "$place"/*; do
        [ -f "$each" ] && head -c 200 "$each" | sed -n '1s/^#! *\\([^ ]*\\).*/run \\1/p'
    done
done 2>/dev/null | sort -u
exit 0
"""
_NAMES = """
while read -r place; do
    (cd "$place" 2>/dev/null && for each in * .[!.]*; do [ -e "$each" ] && printf '%s\\t%s\\n' "$place" "$each"; done)
done
exit 0
"""
_STANDARD = frozenset(sys.stdlib_module_names)
_FLEETING = ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/lock", "/var/log", "/var/run", "/var/tmp")
_BY_PYTHON = re.compile(r"sys\.path\.(?:insert\(\s*\d+\s*,|append\(|extend\(\s*\[)\s*r?[\"']([^\"'\n]+)")
_ENTERED = re.compile(r"(?:^|[\s;&|(])(?:cd|pushd)\s+[\"']?([^\s\"';&|)]+)")
_COPIED = re.compile(
    r"(?:^|[\s;&|(])(?:cp|mv|pytest|py\.test)\s[^\n;&|]*?\s[\"']?(/[^\s\"';&|):]+)[\"']?(?=\s*(?:$|[;&|\n]))", re.M
)
_INCLUDED = re.compile(r"(?:^|\s)-I\s*[\"']?([^\s\"';&|)]+)")
_LONGEST_LINE = 2_000
_ARCHIVE = re.compile(r".*\.(?:egg|jar|phar|war|whl|zip)")
_LIBRARY_SUFFIX = re.compile(r"\.(?:a|so|la)(?:\.|$)")


@dataclass(frozen=True)
class TaskTexts:
    """What a step says: which paths are the agent's work, and how the tests find what they run."""

    instruction: str = ""
    tests: str = ""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The variables that the tests get beside the image's."""

    @property
    def all(self) -> str:
        """The instruction and the tests."""
        return f"{self.instruction}\n{self.tests}"


async def look_into(image: Sandbox, user: str | None, texts: TaskTexts) -> Protected:
    """Read the protected places of an image from a fresh sandbox of it.

    Raises:
        SandboxError: they cannot be read.
    """
    seen = _Seen(image.workdir, texts)
    seen.note(await _said(image, ["/bin/sh", "-c", _LOOK], "0"))
    for who in dict.fromkeys((user, "0")):
        raw = await _said(image, ["/bin/cat", "/proc/self/environ"], who)
        parts = (each.partition("=") for each in raw.split("\0") if each)
        variables = {name: value for name, _, value in parts} | dict(texts.variables)
        seen.note_variables(variables)
        homes = sorted(home for home in seen.made if home)
        files = [*SETTINGS_FILES, *(f"{home}/{name}" for home in homes for name in SETTINGS_IN_HOME)]
        for file in await image.collect(files, max_bytes=64 * MIB):
            seen.note_settings(file.data.decode(errors="replace"), variables)
        seen.note_tests(variables)
    seen.settle()
    listed = await _said(image, ["/bin/sh", "-c", _NAMES], "0", "".join(f"{path}\n" for path, _ in seen.roots))
    return seen.protected(listed)


async def _said(image: Sandbox, command: Sequence[str], user: str | None, stdin: str = "") -> str:
    done = await image.exec(
        command, user=user, stdin=stdin.encode(), output_bytes=16_000_000, timeout_seconds=300, keeps_background=False
    )
    if done.exit_status != 0 or done.stdout.dropped_bytes:
        raise SandboxError(f"the image could not be looked into: {done.stderr.text[-300:]}")
    return done.stdout.text


class _Seen:
    """Collects what an image and a task's texts say of programs."""

    def __init__(self, workdir: str, texts: TaskTexts) -> None:
        self._workdir, self._texts = workdir, texts
        self._places: list[str] = [*SYSTEM]
        self._homes: list[str] = ["/root", "", *above(workdir)]
        self.made: list[str] = ["/root"]
        self._had: set[str] = set()
        self._named: set[str] = set()
        self._mentioned: set[str] = set()
        self.roots: set[Root] = {(workdir, "python")}
        self._modules: dict[Kind, set[str]] = {"python": set(_STANDARD)}
        self._bases: list[str] = []

    def note(self, said: str) -> None:
        """Note the lines of `_LOOK`."""
        for line in said.splitlines():
            kind, _, value = line.partition(" ")
            match kind:
                case "home" | "made":
                    (self._homes if kind == "home" else self.made).append(value.rstrip("/"))
                case "had":
                    if value.split("/")[1] not in NOT_LISTED:
                        self._had.add(value)
                case "found":
                    self._places += _of_found(value)
                case "base":
                    self._bases.append(value)
                case "pth":
                    self._add_root(value if value.startswith("/") else "", "python")
                case "run":
                    self._bases.append(str(PurePosixPath(value).parent))
                    self._named.add(value)
                case _:
                    self._note_module(kind, value)

    def _note_module(self, kind: str, name: str) -> None:
        match kind:
            case "python":
                stem = name.partition(".")[0]
                if stem.isidentifier() and stem not in ORDINARY:
                    self._modules["python"].add(stem)
            case "perl" | "ruby" | "lua":
                self._modules.setdefault(kind, set()).add(name.rpartition(".")[0])
            case "library":
                if (suffix := _LIBRARY_SUFFIX.search(name)) is not None:
                    self._modules.setdefault(kind, set()).add(name[: suffix.start()])
            case "node" | "r" | "header" | "package" | "cmake" | "program":
                self._modules.setdefault(kind, set()).add(name)
            case _:
                pass

    def note_variables(self, variables: Mapping[str, str]) -> None:
        """Note what the tests' environment names."""
        for name, value in variables.items():
            self._note_variable(name, value)

    def _note_variable(self, name: str, value: str) -> None:
        folder = self._workdir
        if not value or not does_count(name):
            return
        if name == "HOME":
            self._homes.append(value.rstrip("/"))
        elif (kind := kind_of(name)) is not None:
            for path in searched(name, value, folder):
                self._add_root(path, kind)
        else:
            self._named.update(places(name, value, folder))
        for path, kind in option_roots(name, value, folder):
            self._add_root(path, kind)

    def note_settings(self, text: str, variables: Mapping[str, str]) -> None:
        """Note the variables that a file of settings sets, and the paths that it names."""
        known = {"PWD": self._workdir, **variables}
        for name, value in assigned(text, known):
            self._note_variable(name, value)
        lines = [line for line in text.splitlines() if not line.lstrip().startswith(("#", ";"))]
        for path in paths_in(filled("\n".join(lines), known), self._workdir):
            if path.count("/") > 1 and not f"{path}/".startswith(tuple(f"{each}/" for each in _FLEETING)):
                self._mentioned.add(path)

    def note_tests(self, variables: Mapping[str, str]) -> None:
        """Note where the tests look for what they load."""
        known = {"PWD": self._workdir, **variables}
        text = "\n".join(line for line in self._texts.tests.splitlines() if len(line) < _LONGEST_LINE)
        for name, value in assigned(text, known):
            self._note_variable(name, value)
        text = filled(text, known)
        for path in (*_BY_PYTHON.findall(text), *_ENTERED.findall(text)):
            self._add_root(path, "python")
        for path in _COPIED.findall(text):
            self._add_root(path if is_folder_name(path) else str(PurePosixPath(path).parent), "python")
        for path in _INCLUDED.findall(text):
            for kind in ("perl", "ruby", "header"):
                self._add_root(path, kind)

    def _add_root(self, path: str, kind: Kind) -> None:
        if path and "$" not in path and not path.startswith("-"):
            self.roots.add((joined(self._workdir, path), kind))

    def settle(self) -> None:
        """Take those searched folders for places of the image that are neither work nor named by the task."""
        told = NamedPaths.of(self._texts.all, self.made)
        for root in sorted(self.roots):
            path, kind = root
            if _ARCHIVE.fullmatch(path):
                self._named.add(path)
            elif kind == "program" and not self._is_work(path):
                self._places += _of_folder(path)
            elif not self._is_work(path) and not told.cover(path):
                self._named.add(path)
            else:
                continue
            self.roots.remove(root)
        for path in self._mentioned:
            if not told.cover(path) and not (self._is_work(path) and is_folder_name(path)):
                self._named.add(path)
        for base in self._bases:
            if PurePosixPath(base).name in ("bin", "sbin") and not self._is_work(base):
                self._places += _of_folder(base)

    def _is_work(self, path: str) -> bool:
        area = work_area(self._workdir)
        return path == self._workdir or (area is not None and f"{path}/".startswith(f"{area}/"))

    def protected(self, listed: str) -> Protected:
        """All of it, with the names that the image has in the searched folders."""
        names: dict[str, set[str]] = {}
        for line in listed.splitlines():
            place, _, name = line.partition("\t")
            names.setdefault(place, set()).add(name)
        texts = self._texts
        return Protected(
            places=frozenset(place.rstrip("/") for place in self._places) - {""},
            homes=frozenset(self._homes),
            made=frozenset(self.made) - {""},
            named=frozenset(self._named) - {""},
            had=frozenset(self._had),
            workdir=self._workdir,
            roots={root: frozenset(names.get(root[0], ())) for root in self.roots},
            modules={kind: frozenset(found) for kind, found in self._modules.items()},
            text=texts.all,
            asked=NamedPaths.of(texts.instruction, self.made),
            told=NamedPaths.of(texts.all, self.made),
        )


def _of_folder(folder: str) -> Iterable[str]:
    """The places that a folder of programs implies."""
    path = PurePosixPath(folder)
    return (folder, *_of_prefix(path.parent)) if path.name in ("bin", "sbin") else (folder,)


def _of_found(place: str) -> Iterable[str]:
    path = PurePosixPath(place)
    if path.name in ("pyvenv.cfg", "conda-meta"):
        return _of_prefix(path.parent)
    if path.name in ("autoload.php", "modules.txt"):
        return (str(path.parent),)
    if path.name.endswith("-packages") and path.parent.name.startswith("python"):  # PREFIX/lib/python3.12/site-packages
        return (place, *_of_prefix(path.parent.parent.parent))
    return (place,)


def _of_prefix(prefix: PurePosixPath) -> Iterator[str]:
    if str(prefix) != "/":
        yield from (str(prefix / name) for name in OF_PREFIX)
