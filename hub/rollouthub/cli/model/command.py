"""`hub model`: model servers on a Ray cluster, brought up, watched and taken down."""

from typing import Annotated

import typer

model = typer.Typer(
    help="Bring model servers up on this machine or a Ray cluster, and take them down.", no_args_is_help=True
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@model.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": False})
def up(
    source: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that holds a model, or ORGANISATION/NAME.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENT…]", help="For the server, after --.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What it is served as; the folder's name, or MODEL itself, by default.")
    ] = None,
    replicas: Annotated[int, typer.Option("-n", "--replicas", min=1, help="Servers of this model.")] = 1,
    tensor_parallel: Annotated[
        int, typer.Option("--tensor-parallel", min=1, help="GPUs each server is spread over.")
    ] = 1,
    cpus: Annotated[float, typer.Option(min=0.0, help="CPUs set aside for each server (and GPU's worth of it).")] = 1.0,
    address: Annotated[
        str | None,
        typer.Option(help="A Ray cluster: auto or HOST:PORT. By default one of our own on this machine."),
    ] = None,
    command: Annotated[
        str | None, typer.Option(help="The vllm executable; beside this Python or on PATH by default.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            help="Where servers listen: loopback by default, in a cluster of several nodes each node's address."
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Of the first server, the next one's is one more; else free ones."),
    ] = None,
    restarts: Annotated[int, typer.Option(min=0, help="How often in a row a dead server is started again.")] = 5,
    start_seconds: Annotated[float, typer.Option(min=1.0, help="How long a server may take to come up.")] = 600.0,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Stay until Ctrl-C, and take the model down then.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Start servers of a model, wait until they are healthy, and let runs find them.

    Then: hub run arithmetic -m hosted_vllm/NAME

    Servers ask for the key in HOSTED_VLLM_API_KEY where that is set. Exit codes: 0 up, 1 a server did not come up,
    2 usage, 130 interrupted.
    """
    from rollouthub.cli.model.action import bring_up
    from rollouthub.event_loop import run_async

    code = run_async(
        bring_up,
        source,
        name,
        {
            "replicas": replicas,
            "tensor_parallel": tensor_parallel,
            "cpus": cpus,
            "command": command,
            "host": host,
            "port": port,
            "restarts": restarts,
            "arguments": tuple(arguments or ()),
        },
        start_seconds,
        address,
        foreground,
        as_json,
    )
    raise typer.Exit(code)


@model.command("ls")
def list_models(as_json: AsJson = False) -> None:
    """Show the models that are up, and how each of their servers stands."""
    from rollouthub.cli.model.action import show_models

    show_models(as_json)


@model.command()
def down(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME…", help="Models, by the names they serve.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every model, and the cluster they were given here.")] = False,
) -> None:
    """Take models off the list, let their servers finish what they answer, and end them."""
    from rollouthub.cli.model.action import take_down
    from rollouthub.event_loop import run_async

    run_async(take_down, tuple(names or ()), every)
