"""`hub compare`: one set of tasks played by several models, or runs that are there, side by side."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli.options import ConfigOption, QuietOption
from rollouthub.cli.settings_command import SettingsCommand, given_settings
from rollouthub.errors import ConfigError


class CompareCommand(SettingsCommand):
    """`hub compare`: the settings that mean the same for every model."""

    taken = (
        "agent",
        "split",
        "repeats",
        "seed",
        "set",
        "tasks",
        "shuffle",
        "skip",
        "sample",
        "limit",
        "lane",
        "budget",
        "sampling",
        "limits",
        "deadlines",
        "concurrency",
        "in_process",
        "served",
        "track",
    )


def compare(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ENV…] | RUN RUN…", help="With -m, the environments to play; without it, existing runs."
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "-m", "--model", metavar="MODEL", help="A model to compare; repeatable. The first is the baseline."
        ),
    ] = None,
    base_url: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[MODEL=]URL", help="A model's server; without MODEL=, the server of all models that need one."
        ),
    ] = None,
    config: ConfigOption = None,
    project: Annotated[
        int | None, typer.Option(min=1, help="Project cost and time to N tasks; the full split where it is played.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Where the models' runs go; runs/compare-ENV-TIME by default. Or FILE.html or FILE.md: a report.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the comparison in -o.")] = False,
    root: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Compare models on the same tasks and seeds before money is spent, or runs on the tasks they have in common.

    Differences are paired by task, with their 95 % interval. Ctrl-C keeps and compares what is there.

    Exit codes: 0 every rollout scored, 1 some unscored, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.compare.action import play_models, read_runs
    from rollouthub.cli.compare.compare_tables import print_comparison
    from rollouthub.cli.console import results, warn
    from rollouthub.store.atomic_files import check_output
    from rollouthub.views.report.write import is_report

    code, file = 0, output if is_report(output) else None
    if file is not None:
        check_output(file)  # before models are paid for
    elif output is not None and not (model or resume):
        raise ConfigError(
            f"{output} is no report; name one that ends in .html, .md or .json, or models with -m to play"
        )
    if model or resume:
        given = given_settings(ctx)
        if what:
            given["environments"] = what
        comparison, code = play_models(
            given, model or [], base_url or [], config, None if file else output, resume, project, is_quiet=quiet
        )
    else:
        comparison = read_runs(what or [], root, project)
    if comparison is None:
        raise typer.Exit(code)
    if file is not None:
        from rollouthub.cli.report.command import write_comparison

        write_comparison(comparison, file, is_quiet=quiet)
    if as_json:
        sys.stdout.write(json.dumps(comparison.as_json()) + "\n")
    elif not quiet:
        print_comparison(results(), comparison)
    else:
        for standing in comparison.standings:
            if standing.scored < standing.rollouts:
                unscored = standing.rollouts - standing.scored
                warn(f"{standing.label}: {unscored:,} of {standing.rollouts:,} rollouts have no score")
    raise typer.Exit(code)
