"""Runs `hub audit`: shows progress, prints what was found, and writes what was asked for."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from rollouthub.cli.console import remarks, results
from rollouthub.cli.options import assignments
from rollouthub.cli.redrawn_lines import Foot
from rollouthub.engine.directories import fresh_directory
from rollouthub.engine.run_request import build_request
from rollouthub.engine.task_names import read_names
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.event_loop import run_async
from rollouthub.models.credentials import load_credentials
from rollouthub_registry.audit.accepted_set import check_acceptable, write_accepted
from rollouthub_registry.audit.audit_journal import read_journal
from rollouthub_registry.audit.audit_run import AuditProgress, AuditRequest, audit, chosen_probes
from rollouthub_registry.audit.audited_set import AuditedSet
from rollouthub_registry.audit.cheats import cheats_of_files
from rollouthub_registry.audit.task_finding import TaskAudit
from rollouthub_registry.audit.task_page import print_page
from rollouthub_registry.audit.terminal_report import print_summary, print_task, progress_line

INTERRUPTED = 130


@dataclass(frozen=True)
class AuditOutput:
    """Where an audit goes, and how it is shown."""

    directory: Path | None = None
    report: Path | None = None
    accept: Path | None = None
    is_markdown: bool = False
    is_json: bool = False


def audit_request(
    environments: Sequence[str],
    *,
    split: str | None,
    settings: Sequence[str],
    roles: Sequence[str],
    tasks: Sequence[str],
    limit: int | None,
    sample: int | None,
    seed: int,
    servers: int,
    only: Sequence[str],
    cheats: Sequence[Path],
    repeats: int,
    concurrency: int,
) -> AuditRequest:
    """The request that the command line makes.

    Raises:
        UsageError: an option does not hold.
    """
    values: dict[str, Any] = {
        "environments": tuple(environments),
        "split": split,
        "set": assignments(list(settings), "--set"),
        "roles": assignments(list(roles), "--role"),
        "limit": limit,
        "sample": sample,
        "seed": seed,
        "servers": servers,
    }
    given = {key: value for key, value in values.items() if value not in (None, {})}
    if tasks:
        given["tasks"] = read_names(list(tasks), Path.cwd(), "--task")
    request = AuditRequest(
        build_request(given, "command line"), tuple(only), tuple(cheats_of_files(list(cheats))), repeats, concurrency
    )
    chosen_probes(request)
    return request


def audit_command(request: AuditRequest, output: AuditOutput) -> int:
    """Audit, and print or write what was found; returns the exit code.

    Raises:
        UsageError: the environment cannot be audited with these options.
    """
    _check_places(output)
    if output.accept is not None:
        check_acceptable(request.run.environments)
    folder = output.directory or fresh_directory(f"audits/{_beginning(request)}")
    progress = AuditProgress()
    screen = _AuditScreen(is_quiet=output.is_json or output.is_markdown)
    credentials = load_credentials(os.environ, Path.cwd())
    began = time.monotonic()
    is_interrupted = False
    try:
        run_async(partial(audit, request, credentials, folder, progress, screen.on_task))
    except KeyboardInterrupt:
        is_interrupted = True
    finally:
        screen.stop()
    summary = AuditedSet(progress.audits, progress.planned, progress.bad_rows, progress.head, datetime.now(UTC))
    _show(summary, output, folder, time.monotonic() - began, is_interrupted=is_interrupted)
    if is_interrupted:
        return INTERRUPTED
    _accept(summary, output)
    return 0 if summary.is_sound else 1


def show_command(folder: Path, tasks: Sequence[str], output: AuditOutput) -> int:
    """Show an audit that was kept, or the whole page of single tasks; returns the exit code of the audit.

    Raises:
        UsageError: the folder holds no audit, or no task of it is meant.
    """
    _check_places(output)
    record = read_journal(folder)
    summary = AuditedSet.of(record)
    if not tasks:
        _show(summary, output, folder, None)
        _accept(summary, output)
        return 0 if summary.is_sound else 1
    if output.accept is not None:
        raise ConfigError("--accept writes the whole set; leave --task out")
    names = read_names(list(tasks), Path.cwd(), "--task")
    chosen = [audit for audit in record.audits if any(_is_meant(audit.task, name) for name in names)]
    for name in names:
        if not any(_is_meant(audit.task, name) for audit in chosen):
            raise UnknownNameError(f"task in the audit {folder}", name, [audit.task for audit in record.audits])
    shown = replace(summary, audits=chosen, planned=len(chosen))
    if output.is_json or output.is_markdown or output.report is not None:
        _show(shown, output, folder, None)
    else:
        for audit in chosen:
            print_page(results(), audit)
    return 0 if shown.is_sound else 1


def _is_meant(task: str, name: str) -> bool:
    return task == name or fnmatchcase(task, name)


def _check_places(output: AuditOutput) -> None:
    for option, path in (("--report", output.report), ("--accept", output.accept)):
        if path is not None and not path.absolute().parent.is_dir():
            raise ConfigError(
                f"{option} {str(path)!r}: there is no folder {str(path.absolute().parent)!r}; make it first"
            )
    if output.report is not None and output.report.is_dir():
        raise ConfigError(f"--report {str(output.report)!r} is a folder; name a file in it")
    if output.accept is not None and (output.accept.exists() or output.accept.is_symlink()):
        raise ConfigError(f"--accept {str(output.accept)!r} is there already; name a folder that is not")


def _beginning(request: AuditRequest) -> str:
    name = Path(request.run.environments[0].rstrip("/")).name.removesuffix(".py")
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name)[:60] or "audit"


def _show(
    summary: AuditedSet, output: AuditOutput, folder: Path, seconds: float | None, *, is_interrupted: bool = False
) -> None:
    """Print an audit, and write what was asked for; `seconds` is how long it took, None if it was not made now."""
    if output.report is not None:
        from rollouthub_registry.audit.html_report import page

        output.report.write_text(page(summary), encoding="utf-8", errors="replace")
    if output.is_json:
        sys.stdout.write(json.dumps({"directory": str(folder), **summary.as_json()}) + "\n")
    elif output.is_markdown:
        from rollouthub_registry.audit.github_summary import markdown

        sys.stdout.write(markdown(summary))
    else:
        if seconds is None:
            for audit in summary.audits:
                print_task(results(), audit)
        print_summary(results(), summary, folder, seconds, is_interrupted=is_interrupted)
    aside = remarks() if output.is_json or output.is_markdown else results()
    if output.report is not None:
        aside.print(f"written: {output.report}", highlight=False, markup=False)


def _accept(summary: AuditedSet, output: AuditOutput) -> None:
    if output.accept is None:
        return
    aside = remarks() if output.is_json or output.is_markdown else results()
    if not summary.counts["sound"]:
        aside.print(f"nothing is written to {output.accept}: no task is sound", highlight=False, markup=False)
        return
    made = write_accepted(summary, output.accept)
    left = f"; {made.left_out:,} that are defective or undecided are left out" if made.left_out else ""
    line = f"written: {output.accept}, {made.name} with the {made.count:,} sound tasks{left}"
    aside.print(line, highlight=False, markup=False, soft_wrap=True)


class _AuditScreen:
    """Prints defective tasks as they come, and on a terminal the progress below them."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._foot: Foot | None = None
        self._began = time.monotonic()

    def on_task(self, done: TaskAudit, progress: AuditProgress) -> None:
        """Called when a task was audited."""
        if not self._is_quiet:
            print_task(results(), done)
        aside = remarks()
        if aside.is_terminal:
            if self._foot is None:
                self._foot = Foot(aside)
                self._foot.start()
            self._foot.draw([progress_line(progress, time.monotonic() - self._began)])

    def stop(self) -> None:
        """Erase the progress."""
        if self._foot is not None:
            self._foot.stop([])
            self._foot = None
