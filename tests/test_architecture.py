"""The shape of the project: six source roots, floors of packages, nothing heavy on the way in."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TypeVar

import pytest

from rollouthub.cli.command_group import FunctionCommand
from rollouthub.plugins.components import COMPONENTS
from rollouthub.plugins.entry_points import ENVIRONMENTS
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.moved import MOVED, MovedFinder
from rollouthub.processes import HUB, PYTHON
from tests.package_map import package_map, written_map

ROOT = Path(__file__).parents[1]
SOURCE_ROOTS = {
    "hub": "rollouthub",
    "mcp_servers": "rollouthub_servers",
    "sandboxes": "rollouthub_sandboxes",
    "agents": "rollouthub_agents",
    "registry": "rollouthub_registry",
    "tui": "rollouthub_tui",
}
HEAVY = {
    "datasets",
    "docker",
    "litellm",
    "math_verify",
    "mcp",
    "numpy",
    "openai",
    "pyarrow",
    "ray",
    "reasoning_gym",
    "sympy",
    "textual",
    "vllm",
}
"""Loaded only by who needs them: together they cost seconds at every start."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENTRY_POINTS = [
    (group, name, target) for group, points in PROJECT["entry-points"].items() for name, target in points.items()
]


Package = tuple[str, str]
"""A source root's package, and the package in that; empty of flat modules."""
Node = TypeVar("Node", bound=Hashable)


@dataclass(frozen=True)
class Import:
    """One import statement's target; `name` may be an attribute of `module` or a module below it."""

    module: str
    name: str | None


def is_type_checking(node: ast.AST) -> bool:
    """Whether a node is a block that only a type checker reads."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imports_below(tree: ast.AST) -> Iterator[Import]:
    """Every import below a node, those inside functions included."""
    below = [tree]
    while below:
        node = below.pop()
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (Import(node.module or "", alias.name) for alias in node.names)
        elif not isinstance(node, ast.expr) and not is_type_checking(node):
            below.extend(ast.iter_child_nodes(node))


def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found: dict[str, Path] = {}
    for folder, package in SOURCE_ROOTS.items():
        for file in sorted((ROOT / folder / package).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


MODULES = modules()


@dataclass(frozen=True)
class Source:
    """What is asked of a module's text."""

    imports: tuple[Import, ...]
    classes: tuple[str, ...]
    """Defined at the top."""
    docstring: str | None
    prints: bool


def read_source(text: str) -> Source:
    """What a module's text says."""
    tree = ast.parse(text)
    calls = ast.walk(tree) if "print(" in text else ()
    return Source(
        tuple(imports_below(tree)),
        tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef)),
        ast.get_docstring(tree) if text.strip() else "",
        any(
            isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls
        ),
    )


@cache
def sources() -> dict[str, Source]:
    """Every module of the project, read once."""
    return {name: read_source(file.read_text()) for name, file in MODULES.items()}


def imports_of_all() -> Iterator[tuple[str, tuple[Import, ...]]]:
    """Every module of the project and what it imports."""
    return ((name, source.imports) for name, source in sources().items())


def loads(imported: Import) -> str:
    """The module an import loads: `from package import module` loads the module."""
    below = f"{imported.module}.{imported.name}"
    return below if below in MODULES else imported.module


@pytest.mark.parametrize("folder", SOURCE_ROOTS)
def test_a_source_root_holds_exactly_one_import_package(folder: str) -> None:
    root = ROOT / folder
    assert not (root / "__init__.py").exists(), "it would shadow other people's packages in every checkout"
    packages = [entry.name for entry in root.iterdir() if entry.is_dir() and any(entry.rglob("*.py"))]
    assert packages == [SOURCE_ROOTS[folder]]
    assert [entry.name for entry in root.iterdir() if entry.suffix == ".py"] == []


@pytest.mark.parametrize(("folder", "package"), SOURCE_ROOTS.items())
def test_a_package_is_shipped_and_typed(folder: str, package: str) -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert f"{folder}/{package}" in wheel["packages"]
    assert (ROOT / folder / package / "py.typed").exists()


def test_every_arrow_points_at_the_hub() -> None:
    packages = set(SOURCE_ROOTS.values())
    crossing = [
        f"{name} imports {imported.module}"
        for name, imports in imports_of_all()
        for imported in imports
        if (target := imported.module.split(".")[0]) in packages and target not in (name.split(".")[0], "rollouthub")
    ]
    assert crossing == []


def circles(arrows: Mapping[Node, Sequence[Node]]) -> list[list[Node]]:
    """Ways that lead back to where they began, one for each place that they are found from."""
    done: set[Node] = set()

    def circle_from(node: Node, path: list[Node]) -> list[Node]:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        for target in arrows.get(node, ()):
            if found := circle_from(target, [*path, node]):
                return found
        done.add(node)
        return []

    return [circle for node in arrows if (circle := circle_from(node, []))]


def test_no_import_goes_in_a_circle() -> None:
    arrows = {
        name: sorted({loads(imported) for imported in imports} & MODULES.keys() - {name})
        for name, imports in imports_of_all()
    }
    assert circles(arrows) == [], "imports inside functions count"


FLOORS = (
    ("",),
    ("http", "plugins", "statistics", "authoring"),
    ("models", "store"),
    ("hosting", "export"),
    ("engine",),
    ("telemetry", "trainers"),
    ("live", "cluster", "analysis"),
    ("gateway",),
    ("views", "bench"),
    ("cli",),
)
"""The core's packages from the lowest floor to the highest; the flat modules are the lowest."""
REGISTRY_FLOORS = (
    ("",),
    ("bundle", "manifest", "scaffold"),
    ("trust",),
    ("install", "server", "check"),
    ("client", "audit"),
    ("install_flow", "publish", "receipt"),
)
"""The registry's, in the same order."""
SANDBOX_FLOORS = (
    ("",),
    ("engine", "supervisor"),
    ("images", "process"),
    ("docker", "walls"),
    ("bench",),
    ("commands",),
)
TUI_FLOORS = (
    ("",),
    ("widgets", "dialogs"),
    ("actions",),
    ("screens", "text"),
    ("app",),
    ("bench",),
)
FLOOR = {
    (root, package): number
    for root, floors in (
        ("rollouthub", FLOORS),
        ("rollouthub_registry", REGISTRY_FLOORS),
        ("rollouthub_sandboxes", SANDBOX_FLOORS),
        ("rollouthub_tui", TUI_FLOORS),
    )
    for number, packages in enumerate(floors)
    for package in packages
}


def package_of(module: str) -> Package:
    """The source root's package that a module lies in, and the package in that; empty of flat modules."""
    root, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    below = f"{root}.{first}"
    return root, first if below in MODULES and MODULES[below].name == "__init__.py" else ""


def arrows_between_packages() -> dict[Package, dict[Package, list[str]]]:
    """Which package imports which others of its source root, and where; imports inside functions count."""
    arrows: dict[Package, dict[Package, list[str]]] = {}
    for name, imports in imports_of_all():
        for target in {loads(imported) for imported in imports} & MODULES.keys():
            low, high = package_of(name), package_of(target)
            if "." in name and "." in target and low != high and low[0] == high[0]:
                arrows.setdefault(low, {}).setdefault(high, []).append(f"{name} imports {target}")
    return arrows


def test_no_package_knows_a_higher_floor() -> None:
    roots = {root for root, _ in FLOOR}
    assert {package_of(name) for name in MODULES if name.split(".")[0] in roots} == FLOOR.keys()
    assert [
        line
        for low, targets in arrows_between_packages().items()
        if low in FLOOR
        for high, lines in targets.items()
        if FLOOR[high] > FLOOR[low]
        for line in lines
    ] == []


def test_packages_of_a_source_root_import_each_other_in_no_circle() -> None:
    arrows = arrows_between_packages()
    assert circles({low: sorted(targets) for low, targets in arrows.items()}) == []


def test_the_core_has_few_packages_and_few_flat_modules() -> None:
    packages = {package for root, package in FLOOR if root == "rollouthub" and package}
    flat = [name for name in MODULES if name.startswith("rollouthub.") and not package_of(name)[1]]
    assert len(packages) <= 18
    assert len(flat) <= 18, flat


DOOR_FILES = {"__init__", "action", "adapter", "command", "importer"}
"""File names that a door prescribes."""


def test_no_file_name_is_used_more_than_three_times() -> None:
    used = Counter(name.rpartition(".")[2] for name, file in MODULES.items() if file.name != "__init__.py")
    assert {stem for stem, count in used.items() if count > 3} - DOOR_FILES == set()


def test_no_class_name_is_used_twice_in_a_source_root() -> None:
    seen: dict[tuple[str, str], list[str]] = {}
    for name, source in sources().items():
        for defined in source.classes:
            seen.setdefault((name.split(".")[0], defined), []).append(name)
    assert {ends: names for ends, names in seen.items() if len(names) > 1} == {}


@pytest.mark.filterwarnings("default::FutureWarning")
def test_documented_paths_lead_to_where_a_module_is_now() -> None:
    for old, now in MOVED.items():
        assert f"rollouthub.{old}" not in MODULES
        with pytest.warns(FutureWarning, match=re.escape(now)):
            find = MovedFinder().find_spec(f"rollouthub.{old}", None)
        assert find is not None
        assert f"rollouthub.{now}" in MODULES
    code = "import rollouthub.rewards as old, rollouthub.authoring.rewards as new; assert old is new"
    done = subprocess.run([*PYTHON, "-W", "always", "-c", code], capture_output=True, text=True, check=True)
    assert "rollouthub.rewards has moved to rollouthub.authoring.rewards" in done.stderr


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [name for name in MODULES if drawers & set(name.split("."))] == []


def test_the_library_does_not_print() -> None:
    assert read_source("print(1)").prints
    assert [name for name, source in sources().items() if source.prints and not name.startswith("rollouthub.cli")] == []


def test_every_module_says_what_it_is_for() -> None:
    assert [name for name, source in sources().items() if source.docstring is None] == []


def test_a_package_says_what_it_is_in_four_lines_at_most() -> None:
    long = {
        name: lines
        for name, file in MODULES.items()
        if file.name == "__init__.py" and (lines := len((sources()[name].docstring or "").splitlines())) > 4
    }
    assert long == {}


@pytest.mark.parametrize(("group", "name", "target"), ENTRY_POINTS)
def test_an_entry_point_leads_to_something(group: str, name: str, target: str) -> None:
    module, _, attribute = target.partition(":")
    if group == ENVIRONMENTS:
        assert find_environment(name).is_trusted
    else:
        found = getattr(import_module(module), attribute)
        assert isinstance(found, FunctionCommand) or callable(found)


def test_the_command_leads_to_something() -> None:
    module, _, attribute = PROJECT["scripts"]["hub"].partition(":")
    assert callable(getattr(import_module(module), attribute))


SHIPPED = sorted(
    {"rollouthub", "rollouthub.cli.main"}
    | {target.partition(":")[0] for group, _, target in ENTRY_POINTS if group != COMPONENTS}
)


LOADED_BY_EACH = """
import json, sys
from importlib import import_module

for module in json.load(sys.stdin):
    import_module(module)
    print(json.dumps([module, sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def test_importing_what_is_shipped_loads_nothing_heavy() -> None:
    """One process imports one after the other: what is loaded stays, so that the first to load something is named."""
    command, asked = [sys.executable, "-c", LOADED_BY_EACH], json.dumps(SHIPPED)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = dict(json.loads(line) for line in done.stdout.splitlines())
    assert list(loaded) == SHIPPED
    assert {module: heavy for module, names in loaded.items() if (heavy := HEAVY.intersection(names))} == {}


def test_every_interpreter_that_is_started_leaves_the_working_folder_off_its_import_path() -> None:
    started = re.compile(r'(?<!"--python", )sys\.executable,(?!\s*"-[PI]")|(?<!"-P", )"-c", "from rollouthub')
    assert started.search("run([sys.executable, '-c', 'import json'])")
    others = (*ROOT.glob("registry/**/*.template"), *ROOT.glob("examples/**/*.py"))
    files = (file for file in (*MODULES.values(), *others) if file != MODULES["rollouthub.processes"])
    assert [str(file.relative_to(ROOT)) for file in files if started.search(file.read_text())] == []
    assert HUB[:2] == PYTHON == (sys.executable, "-P")


def test_the_map_in_contributing_says_what_packages_say_of_themselves() -> None:
    assert written_map() == package_map(), "write it anew: python -m tests.package_map"
    assert "|  |" not in package_map(), "a package says nothing of itself"
