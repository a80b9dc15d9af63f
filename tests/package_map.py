"""The map of packages in CONTRIBUTING.md, from their docstrings: `python -m tests.package_map` writes it anew."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
ROOTS = ("hub", "mcp_servers", "sandboxes", "agents", "registry", "tui")
_MAP = re.compile(r"(?<=<!-- map -->\n).*?(?=\n<!-- /map -->)", re.DOTALL)


def package_map() -> str:
    """A table: each source root's packages, and what the first sentence of each says."""
    lines = ["| folder | |", "| --- | --- |"]
    for root in ROOTS:
        (top,) = (ROOT / root).glob("rollouthub*")
        packages = (top, *sorted(path.parent for path in top.glob("*/__init__.py")))
        lines += [f"| `{package.relative_to(ROOT)}/` | {_said(package / '__init__.py')} |" for package in packages]
    return "\n".join(lines)


def written_map() -> str:
    """What CONTRIBUTING.md has."""
    found = _MAP.search(PAGE.read_text())
    assert found is not None, "CONTRIBUTING.md has no map"
    return found[0]


def _said(file: Path) -> str:
    said = ast.get_docstring(ast.parse(file.read_text())) or ""
    return said.partition("\n\n")[0].replace("\n", " ").replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(_MAP.sub(lambda _: package_map(), PAGE.read_text()))
