"""The command `hub check`. Imports what it needs when it runs, so that `--help` is instant."""

import os
from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.options import RolesOption, TrustOption, WallOption

TimeLimitOption = Annotated[
    str,
    typer.Option(metavar="TIME", help="With --thorough: time for all attacks; those left by then are skipped."),
]
ReportOption = Annotated[
    Path | None, typer.Option(metavar="FILE.html", help="With --thorough: write a page that lists what was tried.")
]
OldPythonOption = Annotated[
    Path | None,
    typer.Option(
        metavar="PYTHON",
        envvar="ROLLOUTHUB_MCP1_PYTHON",
        help="With --thorough: a Python that has `mcp<2` installed.",
    ),
]
NodeToolsOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        envvar="ROLLOUTHUB_NODE_TOOLS",
        help="With --thorough: where npm installed MCP's Inspector and conformance suite.",
    ),
]


def check(
    environment: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.environments,
            metavar="ENV",
            help="An environment's name (`hub list`), or a file: ./my_env.py",
        ),
    ],
    split: Annotated[str | None, typer.Option(help="The split of tasks; the first by default.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many tasks to check with.")] = 8,
    seed: Annotated[int, typer.Option(help="Seeds tasks and episodes.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An environment's setting.")
    ] = None,
    roles: RolesOption = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Run only this check or attack; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    is_thorough: Annotated[
        bool,
        typer.Option(
            "--thorough",
            help="Also serve the environment, and attack it over the network as agents could; takes minutes.",
        ),
    ] = False,
    time_limit: TimeLimitOption = "15m",
    report: ReportOption = None,
    mcp1_python: OldPythonOption = None,
    node_tools: NodeToolsOption = None,
    wall: WallOption = "auto",
    trust: TrustOption = False,
    from_stdin: Annotated[
        bool, typer.Option("--from-stdin", hidden=True, help="Read the request from stdin; the hub uses this.")
    ] = False,
) -> None:
    """Check an environment before others use it: right scores, no leaks, isolated episodes, complete clean-up.

    A file's code runs inside this process, an installed environment in one of its own behind a wall. --thorough also
    serves the environment from another process and attacks it there; the environment may then be a server's address.

    Exit codes: 0 every check passed and every attack held, 1 some did not, 2 usage, 130 interrupted.
    """
    if from_stdin:
        from rollouthub_registry.check.check_protocol import check_ordered

        raise typer.Exit(check_ordered(environment))
    from rollouthub.cli.options import assignments
    from rollouthub_registry.check.check_request import CheckRequest
    from rollouthub_registry.check.check_run import check_command

    names = {role: str(model) for role, model in assignments(roles or [], "--role").items()}
    walled = "none" if trust else wall
    asked = CheckRequest(split, limit, seed, assignments(settings or [], "--set"), names, tuple(only or ()), walled)
    if is_thorough:
        from rollouthub.settings import seconds_of
        from rollouthub_registry.check.thorough.attack_context import Tools
        from rollouthub_registry.check.thorough.thorough_check import ThoroughCheckRequest, thorough_command

        tools = Tools(mcp1_python, node_tools, os.environ)
        seconds = seconds_of("--time-limit", time_limit)
        raise typer.Exit(thorough_command(ThoroughCheckRequest(environment, asked, seconds, report, as_json, tools)))
    if report is not None:
        raise typer.BadParameter("only with --thorough", param_hint="--report")
    raise typer.Exit(check_command(environment, asked, as_json))
