"""The command `hub check`. Imports what it needs when it runs, so that `--help` is instant."""

from typing import Annotated

import typer


def check(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="A name (`hub list`), or a file: ./my_env.py")],
    split: Annotated[str | None, typer.Option(help="Which tasks; the first split by default.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many tasks to check with.")] = 8,
    seed: Annotated[int, typer.Option(help="Seeds tasks and episodes.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An environment's setting.")
    ] = None,
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="ROLE=MODEL", help="A model the environment asks itself, such as judge=…"),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Only this check; repeatable.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check an environment before others use it: right scores, no leaks, no bleeding, nothing left behind.

    Its code runs inside this process. Exit codes: 0 every check passed, 1 some failed, 2 usage.
    """
    from envhub.cli.run import assignments
    from envhub_registry.check.running import check_command

    given_roles = assignments(roles or [], "--role")
    given = assignments(settings or [], "--set")
    code = check_command(environment, split, limit, seed, given, given_roles, only or [], as_json)
    raise typer.Exit(code)
