"""`hub mock-server`: a model server without a model, for trying things before money is spent."""

from typing import Annotated

import typer


def mock_server(
    model: Annotated[
        str, typer.Argument(help="What it plays: mock/solver, mock/echo, 'mock/solver?latency=0.2&fail=0.1' …")
    ] = "mock/solver",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port; 0 picks a free one.")] = 8000,
) -> None:
    """Serve a mock model over the OpenAI wire, in vLLM's shape (token ids and logprobs included).

    Point a run at it: hub run arithmetic -m hosted_vllm/mock/solver --base-url http://127.0.0.1:8000/v1
    """
    from functools import partial

    from rollouthub.errors import ConfigError
    from rollouthub.event_loop import run_async
    from rollouthub.models.mock.mock_server import serve_mock

    def ready(bound: int) -> None:
        typer.echo(f"serving {model} at http://{host}:{bound}/v1 (Ctrl-C stops it)")

    try:
        run_async(partial(serve_mock, model, host, port, ready=ready))
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
