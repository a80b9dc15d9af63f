"""The table: as text, and in docs/gpu.md between the markers of its device."""

import re
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.gpu.rows import Row

PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
HEAD = ("| part | figure | value | bar | |", "| --- | --- | --- | --- | --- |")
PACKAGES = ("torch", "transformers", "trl", "verl")
_HARMFUL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table; what errors and servers said cannot break it."""
    lines = [*HEAD]
    for row in rows:
        told = f"{row.verdict}: {row.note}" if row.note else row.verdict
        lines.append("| " + " | ".join(map(_cell, (row.part, row.name, row.shown, row.bar, told))) + " |")
    return "\n".join(lines)


def section(rows: Sequence[Row], facts: Mapping[str, str]) -> str:
    """What stands between the markers: what was measured with, and the table."""
    return "\n".join([*(f"- {name}: {_cell(value)}" for name, value in facts.items()), "", table(rows)])


def versions() -> str:
    """The packages beside the hub that parts use."""
    found: list[str] = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            found.append(f"no {name}")
    return ", ".join(found)


def write(page: Path, device: str, text: str) -> None:
    """Replace what stands between the markers of a device, `gpu` or `cpu`.

    Raises:
        ValueError: the page has no such markers.
    """
    pattern = re.compile(rf"(<!-- {device}-figures -->\n).*?(<!-- /{device}-figures -->)", re.DOTALL)
    found, count = pattern.subn(lambda match: f"{match[1]}{text}\n{match[2]}", page.read_text(encoding="utf-8"))
    if count != 1:
        raise ValueError(f"{page} has {count} pairs of the markers {device}-figures")
    page.write_text(found, encoding="utf-8")


def _cell(text: str) -> str:
    return _HARMFUL.sub(" ", text).replace("|", "\\|").replace("<", "&lt;").strip()
