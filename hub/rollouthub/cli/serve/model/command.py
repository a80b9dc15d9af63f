"""`hub serve model`: starts servers of a model on this machine or a Ray cluster, which run until `hub model stop`."""

from typing import Annotated

import typer
from pydantic import Field

from rollouthub.cli.settings_command import OptionsCommand, given_options
from rollouthub.settings import Option
from rollouthub.values import Frozen


class ServeModelOptions(Frozen):
    """Options of `hub serve model`."""

    name: str | None = Field(
        default=None, description="Name to serve it as; the folder's name, or MODEL itself, by default."
    )
    replicas: Annotated[int, Option(short="-n")] = Field(
        default=1, ge=1, description="Number of servers of this model."
    )
    tensor_parallel: int = Field(default=1, ge=1, description="Number of GPUs that each server is spread over.")
    cpus: float = Field(
        default=1.0,
        ge=0,
        description="CPUs reserved for each server; without GPUs, for each of its --tensor-parallel parts.",
    )
    address: Annotated[str | None, Option("--ray-address", metavar="ADDRESS")] = Field(
        default=None, description="A Ray cluster: auto or HOST:PORT. By default a new one is started on this machine."
    )
    command: str | None = Field(
        default=None, description="The vllm executable; beside this Python or on PATH by default."
    )
    host: str | None = Field(
        default=None,
        description="Where servers listen: loopback by default, in a cluster of several nodes each node's address.",
    )
    port: int | None = Field(
        default=None,
        ge=1,
        le=65535,
        description="Port of the first server; each further server takes the next one. Free ports by default.",
    )
    restarts: int = Field(default=5, ge=0, description="Restarts in a row that a failed server gets.")
    start_seconds: float = Field(default=600.0, ge=1, description="Seconds that a server may take to start.")
    foreground: bool = Field(default=False, description="Run until Ctrl-C, then stop the model's servers.")
    as_json: Annotated[bool, Option("--json")] = Field(default=False, description="Print JSON.")


class ServeModelCommand(OptionsCommand):
    """`hub serve model`, with its options."""

    options = ServeModelOptions


@ServeModelCommand.of
def serve_model(
    ctx: typer.Context,
    source: Annotated[str, typer.Argument(metavar="MODEL", help="A folder that holds a model, or ORGANISATION/NAME.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[-- ARGUMENT…]", help="Arguments for the server, after --.")
    ] = None,
) -> None:
    """Start vLLM servers of a model, on this machine or a cluster.

    The command waits until they are healthy; `hub model stop` ends them. Runs find them by the
    model's name: hub run arithmetic -m hosted_vllm/NAME

    Servers ask for the key in HOSTED_VLLM_API_KEY where that is set. Exit codes: 0 up, 1 a server did not come up,
    2 usage, 130 interrupted.
    """
    from rollouthub.cli.model.action import bring_up
    from rollouthub.event_loop import run_async

    raise typer.Exit(run_async(bring_up, source, tuple(arguments or ()), given_options(ctx, ServeModelOptions)))
