"""`hub list --available`: what can be fetched or imported with one command, by source, licence and size."""

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any

from rich.filesize import decimal
from rich.table import Table
from rich.text import Text

from rollouthub.authoring.rows.named_data import data_of
from rollouthub.cli.console import results
from rollouthub.errors import UnknownNameError
from rollouthub.plugins.entry_points import ENVIRONMENTS, plugins, shipped_plugins
from rollouthub.plugins.environments import find_environment
from rollouthub.plugins.importers import IMPORTERS, find_importer, read_available
from rollouthub.text import one_line

BENCHMARKS = "benchmark"
"""What stands for the format of data that `hub fetch` brings."""
_SEARCHED = ("name", "format", "license")


def available(patterns: Sequence[str]) -> list[dict[str, Any]]:
    """A row for everything whose name, format or licence matches a pattern; without patterns, for everything.

    Raises:
        UnknownNameError: a pattern matches nothing; the message names the nearest names.
        ConfigError: a table of an importer is damaged.
    """
    rows = [*_benchmarks(), *_imports()]
    for pattern in patterns:
        if not any(_matches(row, pattern) for row in rows):
            known = {row[key] for row in rows for key in _SEARCHED if row[key]}
            raise UnknownNameError("benchmark, import, format or licence", pattern, known)
    return [row for row in rows if not patterns or any(_matches(row, pattern) for pattern in patterns)]


def show_available(rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows as a table."""
    table = Table("name", "format", "tasks", "licence", "size", "what it is", "command", box=None, pad_edge=False)
    for row in rows:
        tasks = "" if row["tasks"] is None else f"{row['tasks']:,}"
        size = "" if row["bytes"] is None else decimal(row["bytes"])
        cells = (row["name"], row["format"], tasks, row["license"] or "see rows", size, row["about"], row["command"])
        # Tables of other distributions drive no terminal.
        table.add_row(*(Text(one_line(cell, 400)) for cell in cells))
    results().print(table)


def _matches(row: dict[str, Any], pattern: str) -> bool:
    return any(fnmatchcase(row[key] or "", pattern) for key in _SEARCHED)


def _benchmarks() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for name in sorted(shipped_plugins(ENVIRONMENTS)):
        found = find_environment(name)
        data = data_of(found)
        if data is None:
            continue
        files = data.splits.values()
        rows.append(
            {
                "name": name,
                "format": BENCHMARKS,
                "about": found.summary,
                "tasks": sum(file.rows or 0 for file in files) or None,
                "license": data.license,
                "bytes": sum(file.bytes or 0 for file in files) or None,
                "source": data.source,
                "command": f"hub fetch {name}",
                "is_here": all(file.is_here for file in files),
            }
        )
    return rows


def _imports() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for format_name in plugins(IMPORTERS):
        table = find_importer(format_name).about.available
        for source in () if table is None else read_available(table):
            rows += [
                {
                    "name": name,
                    "format": format_name,
                    "about": item.about,
                    "tasks": item.tasks,
                    "license": source.license,
                    "bytes": source.bytes,
                    "source": source.source,
                    "command": source.command(format_name, name),
                    "is_here": None,
                }
                for name, item in source.items.items()
            ]
    return rows
