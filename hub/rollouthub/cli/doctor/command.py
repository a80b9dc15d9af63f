"""`hub doctor`: what this machine lacks; whether a model, an environment or a cluster works; what ails a run."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.options import BaseUrlOption, LaneOption, ModelOption, SetOption

if TYPE_CHECKING:
    pass


def doctor(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run to examine: its directory, its name, or 'last'.")
    ] = None,
    model: ModelOption = None,
    base_url: BaseUrlOption = None,
    lane: LaneOption = None,
    environment: Annotated[
        list[str] | None,
        typer.Option(
            "-e",
            "--env",
            autocompletion=completion.environments,
            metavar="ENV",
            help="Read all tasks of this environment.",
        ),
    ] = None,
    settings: SetOption = None,
    split: Annotated[str | None, typer.Option(help="The split of tasks; the environment's first by default.")] = None,
    ray: Annotated[
        str | None,
        typer.Option(
            "--ray-address", metavar="ADDRESS", help="Test joining and leaving this Ray cluster: auto, HOST:PORT."
        ),
    ] = None,
    root: Annotated[Path, typer.Option(help="Where runs are kept.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON value.")] = False,
) -> None:
    """Diagnose this machine or a run: what is wrong, why, and what to do.

    Without options it checks this machine. With RUN it examines a run: faults by cause, slow stages, strange rewards,
    outliers. With -m, -e or --ray-address it tests a model, an environment's tasks, or a cluster, and nothing else.

    Exit codes: 0 nothing serious, 1 something must be mended, 2 usage.
    """
    from rollouthub.cli.doctor.action import DoctorOptions, examine_things, print_examination, print_findings

    if run is not None:
        from rollouthub.analysis.run_doctor.examine import examine_run
        from rollouthub.cli.console import results
        from rollouthub.cli.find_run import find_run

        examination = examine_run(find_run(run, root))
        if as_json:
            typer.echo(json.dumps(examination.as_json()))
        else:
            print_examination(results(), examination)
        raise typer.Exit(int(examination.has_problems))
    findings = examine_things(DoctorOptions(model, base_url, lane, environment, settings, split, ray))
    print_findings(findings, as_json)
    if any(finding.state == "broken" for finding in findings):
        raise typer.Exit(1)
