"""`hub compare`: runs several models on the same tasks, or compares existing runs."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings
from rollouthub.errors import ConfigError

if TYPE_CHECKING:
    from rollouthub.analysis.compare.comparison import Comparison
from rollouthub.cli.compare.compare_options import CompareOptions


class CompareCommand(SettingsCommand):
    """`hub compare`: takes every setting of `hub run` that all models share."""

    options = CompareOptions
    left_out = ("environments", "model", "base_url", "fallbacks")


@CompareCommand.of
def compare(
    ctx: typer.Context,
    what: Annotated[
        list[str] | None,
        typer.Argument(
            autocompletion=completion.environments_or_runs,
            metavar="[ENV…] | RUN RUN…",
            help="With -m, the environments to play; without it, existing runs.",
        ),
    ] = None,
) -> None:
    """Compare models on the same tasks and seeds, or finished runs on the tasks they have in common.

    Differences are paired by task, with their 95 % interval; significance is corrected for the number of comparisons.
    With existing runs, --task shows one task in each of them. Ctrl-C keeps and compares what is there.

    Exit codes: 0 every rollout scored, 1 some unscored, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.compare.action import play_models, read_runs, read_tasks
    from rollouthub.cli.compare.task_page import print_tasks
    from rollouthub.store.atomic_files import check_output
    from rollouthub.views.report.write import is_report

    options, code = given_options(ctx, CompareOptions), 0
    plays, file = bool(options.model or options.resume), options.output if is_report(options.output) else None
    given = given_settings(ctx)
    if not plays and given.get("tasks"):
        if options.output is not None:
            raise ConfigError("--task shows a task of existing runs on the screen; leave -o out")
        print_tasks(read_tasks(what or [], options.root, given["tasks"]), as_json=options.as_json)
        return
    if file is not None:
        check_output(file)  # before models are paid for
    elif options.output is not None and not plays:
        raise ConfigError(
            f"{options.output} is no report; name one that ends in .html, .md or .json, or models with -m to play"
        )
    if plays:
        given |= {"environments": what} if what else {}
        comparison, code = play_models(given, options, None if file else options.output)
    else:
        comparison = read_runs(what or [], options.root, options.project)
    if comparison is not None:
        _show(comparison, options, file)
    raise typer.Exit(code)


def _show(comparison: "Comparison", options: CompareOptions, file: Path | None) -> None:
    from rollouthub.cli.compare.compare_tables import print_comparison
    from rollouthub.cli.console import results, warn

    if file is not None:
        from rollouthub.cli.report.command import write_comparison

        write_comparison(comparison, file, is_quiet=options.quiet)
    if options.as_json:
        sys.stdout.write(json.dumps(comparison.as_json()) + "\n")
    elif not options.quiet:
        print_comparison(results(), comparison)
    else:
        for standing in comparison.standings:
            if standing.scored < standing.rollouts:
                unscored = standing.rollouts - standing.scored
                warn(f"{standing.label}: {unscored:,} of {standing.rollouts:,} rollouts have no score")
