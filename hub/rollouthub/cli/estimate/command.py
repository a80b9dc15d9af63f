"""`hub estimate`: estimates a run from a small sample of its tasks."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.lock_options import LockedOption
from rollouthub.cli.options import BuildNetworkOption, ConfigOption, QuietOption
from rollouthub.cli.run.command import run_settings_of
from rollouthub.cli.settings_command import SettingsCommand


class EstimateCommand(SettingsCommand):
    """`hub estimate`: takes all settings of a run except `sample`, which here is the number of tasks to sample."""

    left_out = ("sample",)


@EstimateCommand.of
def estimate(
    ctx: typer.Context,
    sample: Annotated[
        int,
        typer.Option(
            "--sample", min=1, help="Number of tasks of each environment to play, spread over all that are planned."
        ),
    ] = 8,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            autocompletion=completion.runs,
            metavar="RUN",
            help="Play nothing: use the rollouts and settings of this run as the sample.",
        ),
    ] = None,
    build_network: BuildNetworkOption = None,
    config: ConfigOption = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            help="Keep the sampled rollouts as a run in this folder, which `hub run --resume -o DIR` continues; "
            "by default they are thrown away.",
            rich_help_panel="Output",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object on stdout instead of tables.", rich_help_panel="Output"),
    ] = False,
    locked: LockedOption = False,
    quiet: QuietOption = False,
) -> None:
    """Estimate the tokens, cost, time and disk of a run, which is described as for `hub run`.

    A few of its tasks are played for real, with the same settings, and projected with 95 % intervals.

    Exit codes: 0 estimated, 1 some of the sample was not scored, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.estimate.action import estimate_command

    given = run_settings_of(ctx, build_network, is_locked=locked)
    raise typer.Exit(estimate_command(given, config, output, as_json, quiet, sample=sample, source=source))
