"""`hub fingerprint`: its options; it loads what it needs when it runs."""

from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.options import BuildNetworkOption, QuietOption
from rollouthub.cli.run.command import run_settings_of
from rollouthub.cli.settings_command import SettingsCommand


class FingerprintCommand(SettingsCommand):
    """`hub fingerprint`: takes the settings of a run that say what is played, and how it is hosted."""

    taken = (
        "environments",
        "split",
        "set",
        "tasks",
        "skip",
        "limit",
        "seed",
        "roles",
        "limits",
        "deadlines",
        "concurrency",
        "skip_bad",
        "in_process",
        "served",
        "wall",
        "trust",
    )


@FingerprintCommand.of
def fingerprint(
    ctx: typer.Context,
    sample: Annotated[
        int, typer.Option("--sample", min=1, help="Number of tasks that the hub's own agents play, spread over all.")
    ] = 8,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            autocompletion=completion.runs,
            metavar="RUN",
            help="Show, too, what this run says: pass rate, spread inside groups, floor and ceiling, cost.",
        ),
    ] = None,
    build_network: BuildNetworkOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: QuietOption = False,
) -> None:
    """Say what an environment has: tasks, tools, what its reference and an idle agent earn, what an episode costs.

    No model is asked: the agents `oracle` and `null` play a few tasks. Where ENV is left out, the settings of the run
    in --from are taken.

    Exit codes: 0 all was measured, 1 some of the sample was not scored, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.fingerprint.action import fingerprint_command

    given = run_settings_of(ctx, build_network, is_locked=False)
    raise typer.Exit(fingerprint_command(given, sample, source, as_json=as_json, quiet=quiet))
