"""The paths that affect the programs that tests use: the system, interpreters, and files that are run automatically.

Tests are run with the image's own version of these. An agent's changes are found by their place, so that names or links
that the agent chose cannot hide them; which places an image has is read from the image alone.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from rollouthub.errors import SandboxError
from rollouthub.sandbox import Sandbox

_SYSTEM = (
    "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/etc", "/boot", "/nix", "/snap",
    "/var/lib/dpkg", "/var/lib/apt", "/var/cache/apt", "/var/lib/rpm", "/var/lib/dnf", "/var/lib/yum",
    "/var/lib/pacman", "/var/cache/debconf", "/var/cache/ldconfig", "/var/lib/python", "/var/lib/alternatives",
    "/node_modules", "/package.json",
)  # fmt: skip
_SERVICES = frozenset({
    "apache2", "bind", "caddy", "cron.d", "cron.daily", "cron.hourly", "cron.monthly", "cron.weekly", "crontab",
    "dnsmasq.conf", "dnsmasq.d", "dovecot", "exim4", "fstab", "haproxy", "httpd", "logrotate.d", "lighttpd", "mailname",
    "memcached.conf", "mysql", "nginx", "postfix", "postgresql", "prometheus", "rabbitmq", "redis", "rsyslog.d",
    "samba", "supervisor", "systemd", "vsftpd.conf",
})  # fmt: skip
"""Names below `/etc` that only a service reads; tasks may ask to change them."""
_BY_ENGINE = frozenset({"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/mtab"})
_IN_HOME = frozenset({
    ".asdf", ".bash_aliases", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".bun", ".bundle", ".bunfig",
    ".cabal", ".cache", ".cargo", ".conda", ".condarc", ".config", ".coveragerc", ".cpan", ".curlrc", ".deno",
    ".dotnet", ".envrc", ".gdbinit", ".gem", ".gemrc", ".ghcup", ".gitconfig", ".gradle", ".hgrc", ".inputrc",
    ".ipython", ".irbrc", ".java", ".julia", ".jupyter", ".kshrc", ".lldbinit", ".local", ".m2", ".mamba", ".mambarc",
    ".matplotlib", ".mavenrc", ".node_libraries", ".node_modules", ".npm", ".npmrc", ".nuget", ".nvm", ".octaverc",
    ".opam", ".pam_environment", ".pdbrc", ".perl5", ".perldb", ".pip", ".profile", ".pyenv", ".pydistutils.cfg",
    ".pypirc", ".python-eggs", ".pythonrc", ".pythonrc.py", ".R", ".Renviron", ".Rprofile", ".rbenv", ".rubyrc",
    ".rustup", ".rvm", ".sbt", ".sdkman", ".shrc", ".sqliterc", ".volta", ".wgetrc", ".yarn", ".yarnrc", ".yarnrc.yml",
    ".zlogin", ".zprofile", ".zshenv", ".zshrc", "node_modules",
})  # fmt: skip
"""Names in a home folder that shells, interpreters and tools read or run automatically."""
_OF_PREFIX = ("bin", "sbin", "condabin", "lib", "lib32", "lib64", "libexec", "include", "conda-meta", "pyvenv.cfg")
_QUIET = (
    "/var/cache/", "/var/lib/apt/lists/", "/etc/ld.so.cache", "/var/lib/dpkg/lock", "/var/lib/dpkg/triggers/Lock",
    "/etc/.pwd.lock", "/var/lib/apt/extended_states",
)  # fmt: skip
_CACHES = frozenset({"", "pip", "uv", "pypoetry", "_cacache", "_logs"})
"""Names in a home's `.cache` and `.npm` that installers create."""
_WORK = ("/usr/src/", "/usr/local/src/")
_STANDARD = frozenset(sys.stdlib_module_names)
_ORDINARY = frozenset({
    "api", "app", "apps", "bin", "build", "client", "common", "config", "core", "data", "doc", "docs", "example",
    "examples", "lib", "main", "misc", "model", "models", "resources", "sample", "samples", "script", "scripts",
    "server", "setup", "solution", "src", "static", "templates", "test", "testing", "tests", "tool", "tools", "util",
    "utils",
})  # fmt: skip
"""Names that work often has, and that careless distributions install as modules, too."""
_LOOK = """
printf 'path %s\\n' "$PATH"
printf 'home %s\\n' "$HOME"
for each in "$BASH_ENV" "$ENV"; do printf 'start %s\\n' "$each"; done
for each in "$LD_PRELOAD" "$LD_LIBRARY_PATH"; do printf 'libraries %s\\n' "$each"; done
while IFS=: read -r name word uid gid about home shell; do
    printf 'home %s\\n' "$home"
    [ -d "$home" ] && printf 'made %s\\n' "$home"
done </etc/passwd
for each in ./* ./.[!.]*; do [ -e "$each" ] && printf 'work %s\\n' "${each#./}"; done
find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /usr -o -path /.rollouthub \\) -prune -o \\
    \\( -name pyvenv.cfg -o -name conda-meta -o -name site-packages -o -name dist-packages -o -name node_modules \\) \\
    -print 2>/dev/null | while read -r place; do
        printf 'found %s\\n' "$place"
        case $place in *-packages) for each in "$place"/*; do printf 'installed %s\\n' "${each##*/}"; done;; esac
    done
for place in /usr/lib/python3*/*-packages /usr/local/lib/python3*/*-packages; do
    for each in "$place"/*; do printf 'installed %s\\n' "${each##*/}"; done
done
exit 0
"""


@dataclass(frozen=True)
class Protected:
    """The places of an image that contain its programs or affect them."""

    places: frozenset[str] = frozenset(_SYSTEM)
    homes: frozenset[str] = frozenset({"/root", ""})
    made: frozenset[str] = frozenset({"/root"})
    """Homes that exist in the image."""
    workdir: str = "/"
    work: frozenset[str] = frozenset()
    """Names in the image's working directory."""
    installed: frozenset[str] = frozenset()
    """Modules installed in the image's Pythons."""

    @cached_property
    def _ways(self) -> frozenset[str]:
        """The folders above all places and homes: if one of them became a link, the place would be elsewhere."""
        return frozenset(above for place in self.places | self.made for above in _above(place)) | self.made

    @cached_property
    def _around(self) -> frozenset[str]:
        """The working directory and the folders above it, which are not protected for containing a place."""
        return frozenset(_above(self.workdir)) | {self.workdir}

    def holds(self, path: str) -> bool:
        """Whether a changed path is in a protected place, or replaces a folder above one."""
        if path in _BY_ENGINE or path.startswith(_WORK):
            return False
        if path.startswith("/etc/") and path.split("/", 3)[2] in _SERVICES:
            return False
        if path in self._ways:
            return True
        is_work = path.startswith(self.workdir.rstrip("/") + "/")
        for place in (*_above(path), path):
            if place in self.places and not (is_work and place in self._around):
                return True
            home, _, name = place.rpartition("/")
            if name in _IN_HOME and home in self.homes:
                return True
        return False

    def shadows(self, path: str) -> bool:
        """Whether a new module in the working directory would be imported in place of an installed or standard one."""
        folder = self.workdir.rstrip("/") + "/"
        if not path.startswith(folder):
            return False
        name = path.removeprefix(folder).partition("/")[0]
        stem, _, suffix = name.partition(".")
        is_module = suffix in ("", "py", "pyc") or suffix.endswith("so")
        return is_module and name not in self.work and (stem in _STANDARD or stem in self.installed)

    def sort(self, changed: Sequence[str]) -> tuple[list[str], list[str]]:
        """The protected paths among the changed ones: those whose change should affect no result, and the others."""
        held = [path for path in changed if self.holds(path)]
        loud = [path for path in held if not self._is_quiet(path)]
        known = {*loud, *(above for path in loud for above in _above(path))}
        return [path for path in held if path not in known], [path for path in held if path in known]

    def _is_quiet(self, path: str) -> bool:
        """Whether a change happens by itself, so that undoing it does not affect honest work."""
        if "/__pycache__" in path and path.endswith((".pyc", "/__pycache__")):
            return True
        if path.startswith(_QUIET):
            return True
        return any(
            place.rpartition("/")[0] in self.homes
            and place.endswith(("/.cache", "/.npm"))
            and _is_of_itself(path, place)
            for place in (*_above(path), path)
        )


async def look_into(image: Sandbox, user: str | None) -> Protected:
    """Read the protected places of an image from a fresh sandbox of it.

    Raises:
        SandboxError: they cannot be read.
    """
    places, homes, made, work, installed = [*_SYSTEM], ["/root", ""], ["/root"], list[str](), list[str]()
    for who in dict.fromkeys((user, "0")):
        done = await image.exec(["/bin/sh", "-c", _LOOK], user=who, output_bytes=4_000_000, timeout_seconds=300)
        if done.exit_status != 0 or done.stdout.dropped_bytes:
            raise SandboxError(f"the image could not be looked into: {done.stderr.text[-300:]}")
        for line in done.stdout.text.splitlines():
            kind, _, value = line.partition(" ")
            match kind:
                case "home" | "made":
                    (homes if kind == "home" else made).append(value.rstrip("/"))
                case "work":
                    work.append(value)
                case "installed":
                    installed.append(value.partition(".")[0])
                case "path":
                    places += (place for folder in value.split(":") for place in _of_folder(folder))
                case "start":
                    places += [value] if value.startswith("/") else []
                case "libraries":
                    places += (place for place in value.replace(" ", ":").split(":") if place.startswith("/"))
                case "found":
                    places += _of_found(value)
                case _:
                    pass
    kept = {place.rstrip("/") for place in places} - {""}
    modules = frozenset(name for name in installed if name.isidentifier()) - _ORDINARY
    return Protected(frozenset(kept), frozenset(homes), frozenset(made) - {""}, image.workdir, frozenset(work), modules)


def _above(path: str) -> Iterator[str]:
    """The folders above an absolute path, except the root."""
    at = path.find("/", 1)
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)


def _is_of_itself(path: str, cache: str) -> bool:
    below = path.removeprefix(cache).strip("/").partition("/")[0]
    return below in _CACHES


def _of_folder(folder: str) -> Iterable[str]:
    """The places that a folder of programs implies."""
    if not folder.startswith("/"):
        return ()
    path = PurePosixPath(folder)
    return (folder, *_of_prefix(path.parent)) if path.name in ("bin", "sbin") else (folder,)


def _of_found(place: str) -> Iterable[str]:
    path = PurePosixPath(place)
    if path.name in ("pyvenv.cfg", "conda-meta"):
        return _of_prefix(path.parent)
    if path.name != "node_modules" and path.parent.name.startswith("python"):  # PREFIX/lib/python3.12/site-packages
        return (place, *_of_prefix(path.parent.parent.parent))
    return (place,)


def _of_prefix(prefix: PurePosixPath) -> Iterable[str]:
    return () if str(prefix) == "/" else (str(prefix / name) for name in _OF_PREFIX)
