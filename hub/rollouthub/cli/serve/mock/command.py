"""`hub serve mock`: serves a mock model, for trying things at no cost."""

from typing import Annotated

import typer


def serve_mock(
    model: Annotated[
        str, typer.Argument(help="The mock model: mock/solver, mock/echo, 'mock/solver?latency=0.2&fail=0.1' …")
    ] = "mock/solver",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")] = 8000,
    as_json: Annotated[bool, typer.Option("--json", help="Print the address as one line of JSON.")] = False,
) -> None:
    """Serve a mock model with an OpenAI-compatible API.

    Its answers have vLLM's fields, token ids and logprobs included.

    Point a run at it: hub run arithmetic -m hosted_vllm/mock/solver --base-url http://127.0.0.1:8000/v1
    """
    import json
    from functools import partial

    from rollouthub.errors import ConfigError
    from rollouthub.event_loop import run_async
    from rollouthub.models.mock.mock_server import serve_mock as serve

    def ready(bound: int) -> None:
        url = f"http://{host}:{bound}/v1"
        said = json.dumps({"model": model, "url": url}) if as_json else f"serving {model} at {url} (Ctrl-C stops it)"
        typer.echo(said)

    try:
        run_async(partial(serve, model, host, port, ready=ready))
    except OSError as error:
        raise ConfigError(f"cannot listen on {host}:{port}: {error.strerror or error}") from error
