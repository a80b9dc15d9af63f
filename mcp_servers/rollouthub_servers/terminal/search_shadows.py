"""Files of the work that a program would find in place of the image's own: modules, headers, libraries, programs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from rollouthub_servers.terminal.named_paths import above
from rollouthub_servers.terminal.program_variables import Kind, Root

_SUFFIXES: Mapping[Kind, tuple[str, ...]] = {
    "perl": (".pm", ".pl", ".pmc", ".so"),
    "ruby": (".rb", ".so"),
    "lua": (".lua", ".so"),
    "library": (".a", ".so", ".la"),
}
_JAVA = (
    "com/sun/", "groovy/", "java/", "javax/", "jdk/", "junit/", "kotlin/", "org/apache/maven/", "org/assertj/",
    "org/gradle/", "org/hamcrest/", "org/junit/", "org/mockito/", "org/scalatest/", "org/spockframework/",
    "org/testng/", "scala/", "sun/", "META-INF/services/",
)  # fmt: skip
"""Packages of the JVM and of test runners."""


class Shadows:
    """Finds changed paths that stand in for what the image has elsewhere, in folders that programs search."""

    def __init__(self, roots: Mapping[Root, frozenset[str]], modules: Mapping[Kind, frozenset[str]], text: str) -> None:
        self._roots, self._modules, self._text = roots, modules, text
        self._folders = {
            kind: frozenset(each for name in names for each in above(name)) for kind, names in modules.items()
        }
        self._folders["java"] = frozenset(each for name in _JAVA for each in above(name))

    def among(self, changed: Sequence[str], folders: Collection[str]) -> Iterator[str]:
        """The changed paths that shadow something, unless the task's texts name them.

        `folders` are the folders above changed paths: a path without a suffix that is none of them may be a link.
        """
        for path in changed:
            for (root, kind), had in self._roots.items():
                if not path.startswith(root.rstrip("/") + "/"):
                    continue
                below = path.removeprefix(root).lstrip("/")
                if self._does_shadow(kind, below, had, may_be_link=path not in folders):
                    yield path
                    break

    def _does_shadow(self, kind: Kind, below: str, had: Collection[str], *, may_be_link: bool) -> bool:
        top = below.partition("/")[0]
        known = self._modules.get(kind, frozenset())
        match kind:
            case "python":
                stem, _, suffix = top.partition(".")
                is_module = suffix in ("", "py", "pyc", "pyi") or suffix.endswith("so")
                return is_module and top not in had and stem in known and not self._is_asked_for(top)
            case "node":
                name = "/".join(below.split("/")[:2]) if top.startswith("@") else top.removesuffix(".js")
                return top not in had and name in known
            case "r":
                return top not in had and top in known and not self._is_asked_for(top)
            case "program":
                return may_be_link and below not in had and below in known and not self._is_asked_for(below)
            case "java":
                return below.startswith(_JAVA) or (may_be_link and below in self._folders[kind])
            case "header":
                return below in known or (may_be_link and below in self._folders.get(kind, ()))
            case "package" | "cmake":
                return PurePosixPath(below).name in known
            case "library":
                return _stem(PurePosixPath(below).name, _SUFFIXES[kind]) in known
            case "perl" | "ruby" | "lua":
                if below.endswith(_SUFFIXES[kind]):
                    return below.rpartition(".")[0] in known
                return may_be_link and below in self._folders.get(kind, ())

    def _is_asked_for(self, name: str) -> bool:
        """Whether the task's texts name a module or a program of the work."""
        return (name if "." in name else f"/{name}/") in self._text


def _stem(name: str, suffixes: Sequence[str]) -> str:
    """A library's name without its suffix and version: `libz` of `libz.so.1`."""
    at = min((found for suffix in suffixes if (found := name.find(suffix)) != -1), default=-1)
    return name[:at] if at != -1 else ""
