"""The command `hub sandbox`. Imports what it needs when it runs, so that `--help` is instant."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from rollouthub_sandboxes.docker.live_containers import LiveContainer

sandbox = typer.Typer(help="List, clean up and enter the containers of this machine's hubs.", no_args_is_help=True)


@sandbox.command("list")
def list_sandboxes(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """List the containers that hubs started, and whether those hubs still run."""
    from rollouthub.event_loop import run_async

    run_async(_list, as_json)


@sandbox.command("sweep")
def sweep_sandboxes(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Remove containers, snapshots and networks of hubs that no longer run; those of running hubs stay."""
    from rollouthub.event_loop import run_async

    run_async(_sweep, as_json)


@sandbox.command("shell", context_settings={"ignore_unknown_options": True})
def shell_into(
    name: Annotated[str, typer.Argument(metavar="ID", help="A name from `hub sandbox list`, or its beginning.")],
    command: Annotated[list[str] | None, typer.Argument(help="A command to run instead of a shell.")] = None,
    user: Annotated[str, typer.Option(help="The user to run as; the container's own by default.")] = "",
) -> None:
    """Open a shell in a running container. What you change there affects its episode."""
    from rollouthub.event_loop import run_async

    raise typer.Exit(run_async(_shell, name, command or [], user))


async def _list(as_json: bool) -> None:
    from dataclasses import asdict

    from rollouthub.cli.console import results
    from rollouthub_sandboxes.docker.live_containers import live_containers
    from rollouthub_sandboxes.engine.engine import connect_engine

    async with connect_engine() as engine:
        found = await live_containers(engine)
    if as_json:
        typer.echo(json.dumps({"sandboxes": [asdict(container) for container in found]}))
    elif found:
        results().print(_table(found))
    else:
        typer.echo("no hub has a container here")


async def _sweep(as_json: bool) -> None:
    from dataclasses import asdict

    from rollouthub.cli.console import remarks
    from rollouthub_sandboxes.docker.sweep import sweep
    from rollouthub_sandboxes.engine.engine import connect_engine

    async with connect_engine() as engine:
        swept = await sweep(engine)
    if as_json:
        typer.echo(json.dumps(asdict(swept)))
    else:
        for name in (*swept.containers, *swept.images, *swept.networks):
            typer.echo(name)
        gone = len(swept.containers) + len(swept.images) + len(swept.networks)
        typer.echo(f"{gone} removed, {swept.kept} of live hubs kept")
        for problem in swept.problems:
            remarks().print(problem, style="red", markup=False)
    if swept.problems:
        raise typer.Exit(1)


async def _shell(name: str, command: list[str], user: str) -> int:
    from rollouthub_sandboxes.docker.live_containers import command_user, find_container
    from rollouthub_sandboxes.docker.shell import open_shell
    from rollouthub_sandboxes.engine.engine import connect_engine

    async with connect_engine() as engine:
        container = await find_container(engine, name)
        return await open_shell(engine, container.id, command, user or await command_user(engine, container.id))


def _table(found: "list[LiveContainer]") -> "Table":
    import time

    from rich.table import Table

    from rollouthub_sandboxes.images.image_tables import span

    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("sandbox", "id", "state", "owner", "run", "image"):
        table.add_column(title, overflow="fold")
    for title in ("age", "ends in"):
        table.add_column(title, justify="right")
    now = time.time()
    for one in found:
        alive = {True: "", False: " (dead)", None: " (elsewhere)"}[one.owner_alive]
        table.add_row(
            one.name,
            one.id[:12],
            one.state,
            f"{one.owner_pid}{alive}",
            one.run or "-",
            one.image,
            span(now - one.created_at),
            span(one.deadline - now),
            style="dim" if one.is_leftover else "",
        )
    return table
