"""`hub model`: the model servers that `hub serve model` started."""

from typing import Annotated

import typer

model = typer.Typer(help="List and stop the model servers that `hub serve model` started.", no_args_is_help=True)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@model.command("list")
def list_models(as_json: AsJson = False) -> None:
    """Show the models that are up, and how each of their servers stands."""
    from rollouthub.cli.model.action import show_models

    show_models(as_json)


@model.command("stop")
def stop_models(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Models, by the names they serve.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every model, and the cluster they were given here.")] = False,
) -> None:
    """Take models off the list, let their servers finish what they answer, and end them."""
    from rollouthub.cli.model.action import take_down
    from rollouthub.event_loop import run_async

    run_async(take_down, tuple(names or ()), every)
