"""`hub report`: writes the results of runs into one file to share."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.find_run import RUNS, RootOption, find_run

if TYPE_CHECKING:
    from rollouthub.analysis.compare.comparison import Comparison
    from rollouthub.views.report.gather import ReportedRun
    from rollouthub.views.report.redacted_text import Plainness


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completion.runs, metavar="RUN…", help="Directories of runs, names under runs/, or 'last'."
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="The file; without it, or for -, the report goes to stdout, as Markdown."),
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            autocompletion=completion.report_formats,
            help="html, md, json or another that `hub list` names; by default what the file's ending says.",
        ),
    ] = None,
    transcripts: Annotated[
        int,
        typer.Option(
            min=0,
            max=50,
            help="Include the transcripts of this many of the best and as many of the worst rollouts; 0 for none.",
        ),
    ] = 3,
    root: RootOption = RUNS,
) -> None:
    """Write a report of runs: their settings and their results, in one file that needs no network.

    Secrets are masked, paths shortened and the machine's name left out; transcripts are in it unless --transcripts 0.
    """
    from rollouthub.store.atomic_files import check_output
    from rollouthub.views.report.gather import gather
    from rollouthub.views.report.write import format_of, render, write_report

    output = None if output == Path("-") else output
    chosen = format_of(output, form)
    if output is not None:
        check_output(output)
    found = gather(wanted(runs, root), plainness_here(), transcripts=transcripts)
    if output is None:
        sys.stdout.write(render(found, chosen))
        return
    write_report(found, output, chosen)
    typer.echo(f"report of {_count(len(runs))} written to {output}", err=True)


def write_comparison(comparison: "Comparison", output: Path, *, is_quiet: bool) -> None:
    """Write the report of a comparison.

    Raises:
        StoreError: the file cannot be written.
    """
    from rollouthub.views.report.gather import ReportedRun, gather
    from rollouthub.views.report.write import format_of, write_report

    runs = [ReportedRun(directory, _shown(directory)) for directory in comparison.directories]
    found = gather(runs, plainness_here(), transcripts=0, comparison=comparison)
    write_report(found, output, format_of(output, None))
    if not is_quiet:
        typer.echo(f"comparison of {_count(len(runs))} written to {output}", err=True)


def wanted(names: Sequence[str], root: Path) -> "list[ReportedRun]":
    """The runs that the arguments name, without duplicates.

    Raises:
        UsageError: no run has one of these names.
    """
    from rollouthub.views.report.gather import ReportedRun

    directories = dict.fromkeys(find_run(name, root) for name in names)
    return [ReportedRun(directory, _shown(directory)) for directory in directories]


def plainness_here() -> "Plainness":
    """A text filter that masks this environment's secrets and whatever looks like a key."""
    from rollouthub.models.credentials import load_credentials
    from rollouthub.views.report.redacted_text import Plainness

    return Plainness(load_credentials(os.environ, Path.cwd()).redact)


def _shown(directory: Path) -> str:
    """A run's path for the report: relative paths below the working folder in full, otherwise only the name."""
    return directory.name if directory.is_absolute() or ".." in directory.parts else str(directory)


def _count(runs: int) -> str:
    return f"{runs} run{'' if runs == 1 else 's'}"
