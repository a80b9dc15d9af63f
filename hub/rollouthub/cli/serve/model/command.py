"""`hub serve model`: servers of a model on this machine or a Ray cluster, kept up until `hub model stop`."""

from typing import Annotated

import typer


def serve_model(
    source: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that holds a model, or ORGANISATION/NAME.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENT…]", help="Arguments for the server, after --.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name to serve it as; the folder's name, or MODEL itself, by default.")
    ] = None,
    replicas: Annotated[int, typer.Option("-n", "--replicas", min=1, help="Number of servers of this model.")] = 1,
    tensor_parallel: Annotated[
        int, typer.Option("--tensor-parallel", min=1, help="Number of GPUs that each server is spread over.")
    ] = 1,
    cpus: Annotated[
        float,
        typer.Option(
            min=0.0, help="CPUs reserved for each server; without GPUs, for each of its --tensor-parallel parts."
        ),
    ] = 1.0,
    address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="ADDRESS",
            help="A Ray cluster: auto or HOST:PORT. By default a new one is started on this machine.",
        ),
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
        typer.Option(
            min=1,
            max=65535,
            help="Port of the first server; each further server takes the next one. Free ports by default.",
        ),
    ] = None,
    restarts: Annotated[int, typer.Option(min=0, help="Restarts in a row that a failed server gets.")] = 5,
    start_seconds: Annotated[float, typer.Option(min=1.0, help="Seconds that a server may take to start.")] = 600.0,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Run until Ctrl-C, then stop the model's servers.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Start vLLM servers of a model, on this machine or a cluster.

    The command waits until they are healthy; `hub model stop` ends them. Runs find them by the
    model's name: hub run arithmetic -m hosted_vllm/NAME

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
