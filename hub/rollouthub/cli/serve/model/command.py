"""`hub serve model`: starts servers of a model on this machine or a Ray cluster, which run until `hub model stop`."""

from typing import Annotated

import typer

from rollouthub.cli.serve.model.model_options import ServeModelOptions
from rollouthub.cli.settings_command import OptionsCommand, given_options


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
    """Start vLLM or SGLang servers, here or on a cluster.

    The command waits until they are healthy; `hub model stop` ends them. Runs find them by the model's name: hub run
    arithmetic -m hosted_vllm/NAME, or sglang/NAME

    Servers ask for the key in HOSTED_VLLM_API_KEY or SGLANG_API_KEY where that is set. Exit codes: 0 up, 1 a server did
    not come up, 2 usage, 130 interrupted.
    """
    from rollouthub.cli.model.action import bring_up
    from rollouthub.event_loop import run_async

    raise typer.Exit(run_async(bring_up, source, tuple(arguments or ()), given_options(ctx, ServeModelOptions)))
