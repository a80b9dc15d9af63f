"""The shape of the project: six source roots, floors of packages, nothing heavy on the way in."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import pytest

from rollouthub.moved import MOVED, MovedFinder
from rollouthub.plugins.components import COMPONENTS
from rollouthub.plugins.entry_points import ENVIRONMENTS, find_environment
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


@dataclass(frozen=True)
class Import:
    """One import statement's target; `name` may be an attribute of `module` or a module below it."""

    module: str
    name: str | None
    is_at_top: bool


def is_type_checking(node: ast.AST) -> bool:
    """Whether a node is a block that only a type checker reads."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports_below(node: ast.AST, at_top: bool = True) -> Iterator[Import]:
    """Every import below a node; those inside functions run later and are not `at_top`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, None, at_top) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            assert child.level == 0, "imports are absolute"
            yield from (Import(child.module or "", alias.name, at_top) for alias in child.names)
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports_below(child, at_top=False)
        elif not is_type_checking(child):
            yield from imports_below(child, at_top)


def modules() -> dict[str, Path]:
    """Every module of the project by its dotted name."""
    found: dict[str, Path] = {}
    for folder, package in SOURCE_ROOTS.items():
        for file in sorted((ROOT / folder / package).rglob("*.py")):
            parts = file.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


MODULES = modules()
IMPORTS = {name: tuple(imports_below(ast.parse(file.read_text()))) for name, file in MODULES.items()}


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
        for name, imports in IMPORTS.items()
        for imported in imports
        if (target := imported.module.split(".")[0]) in packages and target not in (name.split(".")[0], "rollouthub")
    ]
    assert crossing == []


def test_no_import_goes_in_a_circle() -> None:
    arrows = {
        name: sorted({loads(imported) for imported in imports if imported.is_at_top} & MODULES.keys() - {name})
        for name, imports in IMPORTS.items()
    }
    done: set[str] = set()

    def circle_from(name: str, path: list[str]) -> list[str]:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in done:
            return []
        for target in arrows[name]:
            if found := circle_from(target, [*path, name]):
                return found
        done.add(name)
        return []

    assert [circle for name in arrows if (circle := circle_from(name, []))] == []


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
FLOOR = {package: number for number, packages in enumerate(FLOORS) for package in packages}


def core_package(module: str) -> str:
    """The package of the core that a module lies in; empty of the flat modules."""
    _, _, rest = module.partition(".")
    first = rest.partition(".")[0]
    return first if f"rollouthub.{first}" in MODULES and MODULES[f"rollouthub.{first}"].name == "__init__.py" else ""


def core_arrows() -> dict[tuple[str, str], list[str]]:
    """Which package of the core imports which other, and where; imports inside functions count."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for name, imports in IMPORTS.items():
        if name.split(".")[0] != "rollouthub" or name == "rollouthub":
            continue
        for target in {loads(imported) for imported in imports} & MODULES.keys() - {"rollouthub"}:
            ends = core_package(name), core_package(target)
            if target.startswith("rollouthub.") and ends[0] != ends[1]:
                arrows.setdefault(ends, []).append(f"{name} imports {target}")
    return arrows


def test_no_package_of_the_core_knows_a_higher_floor() -> None:
    assert {core_package(name) for name in MODULES if name.split(".")[0] == "rollouthub"} == FLOOR.keys()
    upward = [line for (low, high), lines in core_arrows().items() if FLOOR[high] > FLOOR[low] for line in lines]
    assert upward == []


def test_packages_on_one_floor_import_each_other_in_one_direction_at_most() -> None:
    arrows = core_arrows()
    assert [ends for ends in arrows if ends[::-1] in arrows] == []


def test_the_core_has_few_packages_and_few_flat_modules() -> None:
    packages = FLOOR.keys() - {""}
    flat = [name for name in MODULES if name.startswith("rollouthub.") and core_package(name) == ""]
    assert len(packages) <= 18
    assert len(flat) <= 18, flat


DOOR_FILES = {"__init__", "action", "adapter", "command"}
"""File names that a door prescribes."""


def test_no_file_name_is_used_more_than_three_times() -> None:
    used = Counter(name.rpartition(".")[2] for name, file in MODULES.items() if file.name != "__init__.py")
    assert {stem for stem, count in used.items() if count > 3} - DOOR_FILES == set()


def test_no_class_name_is_used_twice_in_a_source_root() -> None:
    seen: dict[tuple[str, str], list[str]] = {}
    for name, file in MODULES.items():
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                seen.setdefault((name.split(".")[0], node.name), []).append(name)
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
    printing = [
        name
        for name, file in MODULES.items()
        if not name.startswith("rollouthub.cli")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    ]
    assert printing == []


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        name
        for name, file in MODULES.items()
        if file.read_text().strip() and ast.get_docstring(ast.parse(file.read_text())) is None
    ]
    assert silent == []


@pytest.mark.parametrize(("group", "name", "target"), ENTRY_POINTS)
def test_an_entry_point_leads_to_something(group: str, name: str, target: str) -> None:
    module, _, attribute = target.partition(":")
    if group == ENVIRONMENTS:
        assert find_environment(name).is_trusted
    else:
        assert callable(getattr(import_module(module), attribute))


def test_the_command_leads_to_something() -> None:
    module, _, attribute = PROJECT["scripts"]["hub"].partition(":")
    assert callable(getattr(import_module(module), attribute))


SHIPPED = sorted(
    {"rollouthub", "rollouthub.cli.main"}
    | {target.partition(":")[0] for group, _, target in ENTRY_POINTS if group != COMPONENTS}
)


@pytest.mark.parametrize("module", SHIPPED)
def test_importing_what_is_shipped_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, json, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert loaded & HEAVY == set()


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
