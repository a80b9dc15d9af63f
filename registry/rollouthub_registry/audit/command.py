"""The command `hub audit`. Imports what it needs when it runs, so that `--help` is instant."""

from pathlib import Path
from typing import Annotated

import typer

from rollouthub.cli import completion
from rollouthub.cli.options import RolesOption


def audit(
    environments: Annotated[
        list[str],
        typer.Argument(
            autocompletion=completion.environments,
            metavar="ENV…",
            help="Environments by name (`hub list`), a file, or a folder with an env.toml; or an audit's folder.",
        ),
    ],
    split: Annotated[str | None, typer.Option(help="The split of tasks; the first by default.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="An environment's setting.")
    ] = None,
    roles: RolesOption = None,
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="ID|PATTERN|@FILE", help="Audit only these tasks.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Audit only the first N tasks.")] = None,
    sample: Annotated[int | None, typer.Option(min=1, help="Draw N tasks at random, by the seed.")] = None,
    seed: Annotated[int, typer.Option(help="Seeds tasks and episodes.")] = 0,
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="CHECK", help="Only this probe or cheat; repeatable.")
    ] = None,
    add_cheat: Annotated[
        list[Path] | None,
        typer.Option("--add-cheat", metavar="FILE.py", help="Try a cheat of your own, too; the file is run."),
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, max=100, help="Plays of each reference solution.")] = 3,
    concurrency: Annotated[int, typer.Option("--concurrency", "-c", min=1, help="Tasks at once.")] = 8,
    servers: Annotated[int, typer.Option(min=1, help="Processes for each environment that is served.")] = 1,
    directory: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FOLDER", help="Where the audit is kept; given again, it goes on."),
    ] = None,
    report: Annotated[Path | None, typer.Option(metavar="FILE.html", help="Write a page with every task.")] = None,
    accept: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the set without defective tasks, as an environment to install."),
    ] = None,
    github: Annotated[bool, typer.Option("--github", help="Print Markdown for a GitHub job summary.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Examine every task without a model: whether right solutions are paid, and wrong ones and cheats are not.

    The reference solution, doing nothing, constant answers, changed solutions and a library of cheats are played; the
    verifier, the files and the prompt are looked at. Interrupted, the same command goes on with what is left.

    Exit codes: 0 no task is defective, 1 some are or could not be decided, 2 usage, 130 interrupted.
    """
    from rollouthub_registry.audit.audit_command import AuditOutput, audit_command, audit_request, show_command
    from rollouthub_registry.audit.audit_journal import kept_audit

    output = AuditOutput(directory, report, accept, is_markdown=github, is_json=as_json)
    if as_json and github:
        raise typer.BadParameter("one of --json and --github is printed, not both", param_hint="--github")
    if (kept := kept_audit(environments)) is not None:
        others = {
            "--split": split, "--set": settings, "--role": roles, "--limit": limit, "--sample": sample, "--only": only,
            "--add-cheat": add_cheat, "-o": directory,
        }  # fmt: skip
        if given := [option for option, value in others.items() if value]:
            raise typer.BadParameter(f"{environments[0]} is an audit, which is only shown", param_hint=given[0])
        raise typer.Exit(show_command(kept, tasks or [], output))
    request = audit_request(
        environments,
        split=split,
        settings=settings or [],
        roles=roles or [],
        tasks=tasks or [],
        limit=limit,
        sample=sample,
        seed=seed,
        servers=servers,
        only=only or [],
        cheats=add_cheat or [],
        repeats=repeats,
        concurrency=concurrency,
    )
    raise typer.Exit(audit_command(request, output))
