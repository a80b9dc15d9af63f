"""`hub model`: the model servers that `hub serve model` started."""

from typing import Annotated

import typer

model = typer.Typer(help="List and stop the model servers that `hub serve model` started.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@model.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the running models, and the state of each of their servers."""
    from rollouthub.cli.model.action import show_models

    show_models(as_json)


@model.command("stop")
def stop_models(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME…", help="Models, by the names they are served as.")
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Stop every model, and the cluster that was started for them here.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take models off the list, let their servers finish open requests, and stop them."""
    from rollouthub.cli.model.action import take_down
    from rollouthub.event_loop import run_async

    run_async(take_down, tuple(names or ()), every, as_json)
