"""What `hub import` does: reads a source, selects items, writes environments, and reports on each item."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from rollouthub.cli.console import remarks, results
from rollouthub.cli.options import assignments
from rollouthub.errors import ConfigError
from rollouthub.plugins.entry_points import plugins
from rollouthub.plugins.importers import (
    COMMANDS,
    IMPORTERS,
    Candidate,
    Identity,
    Importer,
    ImportSource,
    Written,
    chosen_of,
    find_importer,
)

SHOWN_ITEMS, SHOWN_IDS, SHOWN_COMMANDS = 200, 5, 10


@dataclass(frozen=True)
class ImportOrder:
    """The arguments and options of `hub import`."""

    format: str
    source: str
    patterns: tuple[str, ...]
    out: Path | None
    is_dry: bool
    name: str | None
    terms: str | None
    settings: tuple[str, ...]
    as_json: bool


def import_chosen(order: ImportOrder) -> int:
    """Import the selected items and report on them; returns the exit code.

    Raises:
        UsageError: the source or an option is invalid.
    """
    if order.out is None and (order.name is not None or order.terms is not None or order.is_dry):
        raise ConfigError("--name, --license and --dry-run go with -o, which writes an environment")
    importer, given = find_importer(order.format), assignments(list(order.settings), "--set")
    source = ImportSource.of(order.source, order.patterns)
    importer.about.check(source)
    note = _silent if order.as_json else _print_step
    found = chosen_of(importer.look(source, given, note), order.patterns, importer.about.item)
    taken = [candidate.id for candidate in found if candidate.runs]
    written: Sequence[Path] = ()
    if order.out is not None and not order.is_dry:
        identity = Identity(name=order.name, license=order.terms)
        written = importer.write(source, taken, given, order.out, identity, note)
        if isinstance(written, Written):
            left_out = {candidate.id: candidate for candidate in written.left_out}
            found = [left_out.get(candidate.id, candidate) for candidate in found]
    refused = [candidate for candidate in found if not candidate.runs]
    view = _ImportReport(order, importer, found, refused, written)
    if order.as_json:
        sys.stdout.write(json.dumps(view.as_json()) + "\n")
    else:
        view.show()
    return 1 if refused else 0


def described_formats() -> list[dict[str, Any]]:
    """Every registered format: what it contains, which sources it reads, and what an import cannot guarantee."""
    found: list[dict[str, Any]] = []
    for name in plugins(IMPORTERS):
        about = find_importer(name).about
        found.append({"name": name, **about.model_dump(mode="json")})
    for name, plugin in plugins(COMMANDS).items():
        said = (plugin.entry.load().__doc__ or "").strip().partition("\n")[0]
        found.append({"name": name, "summary": said, "item": None, "sources": {}, "unpromised": []})
    return sorted(found, key=lambda each: str(each["name"]))


def show_formats(found: Sequence[dict[str, Any]]) -> None:
    """Print the formats as a table."""
    table = Table("format", "what it holds", "takes", box=None, pad_edge=False)
    for each in found:
        takes = "\n".join(each["sources"].values()) or f"hub import {each['name']} --help"
        table.add_row(Text(each["name"], style="bold"), Text(each["summary"]), Text(takes))
    results().print(table)


def _silent(_: str) -> None:
    """Ignore progress messages, for `--json`."""


def _print_step(step: str) -> None:
    remarks().print(Text(step, style="dim"))


@dataclass(frozen=True)
class _ImportReport:
    """The result of an import, printed as tables or JSON."""

    order: ImportOrder
    importer: Importer
    found: Sequence[Candidate]
    refused: Sequence[Candidate]
    written: Sequence[Path]

    @property
    def taken(self) -> list[Candidate]:
        """Items that can be played."""
        return [candidate for candidate in self.found if candidate.runs]

    @property
    def commands(self) -> list[str]:
        """Commands that play the imported items, or that import them first."""
        order = self.order
        if self.written:
            return [shlex.join(["hub", "run", str(path)]) for path in self.written]
        player = self.importer.environment if Path(order.source).is_dir() else None
        if player is None or order.patterns or order.is_dry:
            where = order.out or "DIR"
            words = ["hub", "import", order.format, order.source, *order.patterns, "-o", str(where)]
            return [shlex.join([*words, *(word for setting in order.settings for word in ("--set", setting))])]
        words = ["--set", f"data={order.source}", *(word for each in order.settings for word in ("--set", each))]
        played = shlex.join(["hub", "run", player, *words])
        return [played + (" --skip-bad" if self.refused else "")]

    @property
    def publish(self) -> str | None:
        """The command that publishes the environment; None unless exactly one was written."""
        return f"hub publish {self.order.out}" if len(self.written) == 1 else None

    @property
    def unpromised(self) -> list[str]:
        """What the format or a playable item cannot guarantee, without duplicates."""
        own = (line for candidate in self.taken for line in candidate.unpromised)
        return list(dict.fromkeys((*self.importer.about.unpromised, *own)))

    def as_json(self) -> dict[str, Any]:
        """The whole result, as `--json` prints it."""
        rows = [candidate.model_dump(mode="json") | {"runs": candidate.runs} for candidate in self.found]
        commands = self.commands
        return {
            "tasks": rows,
            "item": self.importer.about.item,
            "runs": len(self.taken),
            "refused": len(self.refused),
            "written": [str(path) for path in self.written],
            "command": commands[0] if commands else None,
            "commands": commands,
            "publish": self.publish,
            "lifted_by": _lifting(self.refused),
            "unpromised": self.unpromised,
        }

    def show(self) -> None:
        """Print the result as tables and commands."""
        console, taken = results(), self.taken
        if taken:
            console.print(_table_of(taken, self.importer.about.item))
        console.print(f"{chr(10) if taken else ''}{len(taken)} of {len(self.found)} can be run.")
        for reason, ids in _by_reason(self.refused):
            others = f" and {len(ids) - SHOWN_IDS:,} more" if len(ids) > SHOWN_IDS else ""
            console.print(Text(f"\nrefused, {len(ids):,}: ", style="red").append(reason, style="default"))
            console.print(Text(f"  {', '.join(ids[:SHOWN_IDS])}{others}", style="dim"))
        if self.refused:
            console.print()
        if taken and (unpromised := self.unpromised):
            console.print(Text("What is not promised: " + "; ".join(unpromised) + ".", style="dim"))
        if taken:
            self._show_commands()
        if lifting := _lifting(self.refused):
            count = sum(bool(candidate.lifted_by) for candidate in self.refused)
            kept = _settings_beside(self.order.settings, lifting)
            command = " ".join(["hub import", self.order.format, self.order.source, *kept, *lifting])
            console.print(Text(f"{count:,} of the refused can be run, too: {command}"), soft_wrap=True)

    def _show_commands(self) -> None:
        console, commands = results(), self.commands
        if self.publish is not None:
            console.print(Text(f"Publish them: {self.publish}"))
            if self.importer.environment is not None:
                console.print(
                    "Where others install them, Dockerfiles are built without a network: --build-network bridge lifts"
                    " that."
                )
        if not self.written and (self.importer.environment is None or self.order.patterns or self.order.is_dry):
            console.print(Text(f"Import them: {commands[0]}"))
            return
        oracle = " --agent oracle" if self.importer.environment is not None else ""
        for command in commands[:SHOWN_COMMANDS]:
            console.print(Text(f"Play them: {command}{oracle}"))
        if len(commands) > SHOWN_COMMANDS:
            console.print(Text(f"and {len(commands) - SHOWN_COMMANDS:,} more below {self.order.out}", style="dim"))


def _settings_beside(settings: Sequence[str], lifting: list[str]) -> list[str]:
    """The given settings as `--set` options, without those that the options in `lifting` replace."""
    names = {option.partition(" ")[2].strip("'").partition("=")[0] for option in lifting}
    return [f"--set {shlex.quote(setting)}" for setting in settings if setting.partition("=")[0] not in names]


def _table_of(runs: Sequence[Candidate], item: str) -> Table:
    facts = list(dict.fromkeys(name for candidate in runs for name in candidate.facts))
    table = Table(item, "", *facts, box=None, pad_edge=False)
    for candidate in runs[:SHOWN_ITEMS]:
        shown = [str(candidate.facts.get(name, "")) for name in facts]
        table.add_row(Text(candidate.id), Text("runs", style="green"), *map(Text, shown))
    if len(runs) > SHOWN_ITEMS:
        table.add_row(Text(f"and {len(runs) - SHOWN_ITEMS:,} more (all of them: --json)", style="dim"))
    return table


def _by_reason(refused: Sequence[Candidate]) -> list[tuple[str, list[str]]]:
    """Ids of refused items by reason, the most frequent reason first."""
    groups: dict[str, list[str]] = {}
    for candidate in refused:
        for reason in candidate.reasons:
            groups.setdefault(reason, []).append(candidate.id)
    return sorted(groups.items(), key=lambda group: -len(group[1]))


def _lifting(refused: Sequence[Candidate]) -> list[str]:
    """The `--set` options that make refused items playable, without duplicates; lists of one setting are merged."""
    lists: dict[str, list[str]] = {}
    plain: dict[str, None] = {}
    for candidate in refused:
        for option in candidate.lifted_by:
            name, _, value = option.partition("=")
            if value.startswith("["):
                known = lists.setdefault(name, [])
                known += [entry for entry in json.loads(value) if entry not in known]
            else:
                plain[option] = None
    return [*(f"--set {option}" for option in plain), *(f"--set '{name}={json.dumps(v)}'" for name, v in lists.items())]
