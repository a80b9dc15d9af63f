"""`hub doctor`: diagnoses this machine; tests a model, an environment or a cluster; examines a run."""

import json
from typing import Annotated

import typer
from pydantic import Field

from rollouthub.cli import completion
from rollouthub.cli.find_run import RUNS
from rollouthub.cli.options import RootField
from rollouthub.cli.settings_command import SettingsCommand, given_options, given_settings
from rollouthub.settings import Option
from rollouthub.values import Frozen


class DoctorOptions(Frozen):
    """Options of `hub doctor`: what it checks beside a model; without any option it checks this machine."""

    environments: Annotated[tuple[str, ...], Option("--env", short="-e", metavar="ENV", names="environment")] = Field(
        default=(), description="Read all tasks of this environment."
    )
    ray: Annotated[str | None, Option("--ray-address", metavar="ADDRESS")] = Field(
        default=None, description="Test joining and leaving this Ray cluster: auto, HOST:PORT."
    )
    root: RootField = RUNS
    as_json: Annotated[bool, Option("--json")] = Field(default=False, description="Print one JSON value.")


class DoctorCommand(SettingsCommand):
    """`hub doctor`: takes the run settings that apply to a model and an environment's tasks."""

    options = DoctorOptions
    taken = ("model", "base_url", "lane", "set", "split")


@DoctorCommand.of
def doctor(
    ctx: typer.Context,
    run: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.runs,
            metavar="[RUN]",
            help="The run to examine: its directory, its name, or 'last'.",
        ),
    ] = None,
) -> None:
    """Diagnose this machine or a run: what is wrong, why, and what to do.

    Without options it checks this machine. With RUN it examines a run: faults by cause, slow stages, strange rewards,
    outliers. With -m, -e or --ray-address it tests a model, an environment's tasks, or a cluster, and nothing else.

    Exit codes: 0 nothing serious, 1 something must be mended, 2 usage.
    """
    from rollouthub.cli.doctor.action import examine_things, print_examination, print_findings

    options = given_options(ctx, DoctorOptions)
    if run is not None:
        from rollouthub.analysis.run_doctor.examine import examine_run
        from rollouthub.cli.console import results
        from rollouthub.cli.find_run import find_run

        examination = examine_run(find_run(run, options.root))
        if options.as_json:
            typer.echo(json.dumps(examination.as_json()))
        else:
            print_examination(results(), examination)
        raise typer.Exit(int(examination.has_problems))
    findings = examine_things(given_settings(ctx), options.environments, options.ray)
    print_findings(findings, options.as_json)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)
