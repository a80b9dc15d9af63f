"""Starting a server for the hub, over stdin and stdout, or for people, who read where it is."""

import os
from functools import partial

import anyio
import typer
from pydantic import ValidationError

from rollouthub.cli.options import assignments
from rollouthub.errors import ConfigError, UsageError
from rollouthub.event_loop import run_async
from rollouthub.hosting.control_wire import Failure, problem_of
from rollouthub.hosting.launch import ServeOrder, ServerReady
from rollouthub.hosting.server.credential import ControlCredential, control_credential
from rollouthub.hosting.server.other_interpreter import TOOLS_VARIABLE, hand_over, see_that_it_is_sound
from rollouthub.hosting.server.serve import Service, serve
from rollouthub.hosting.server.server_lifetime import serve_to_the_end
from rollouthub.hosting.server.stdio_pipe import keep_to_ourselves
from rollouthub.models.config import ModelConfig
from rollouthub.plugins.installed import find_installation

MAX_ORDER_BYTES = 16 * 2**20
REFUSED = 2


def serve_ordered() -> int:
    """Serve what a line on stdin orders, and leave when stdin ends; the exit code."""
    stdin, stdout = keep_to_ourselves()

    def say(line: ServerReady | Failure) -> None:
        os.write(stdout, line.model_dump_json().encode() + b"\n")

    try:
        order = _order(stdin)
        if order is None:
            return 0
        service = Service(
            environment=order.environment,
            control_token=order.control_token,
            python=order.python,
            config=order.config,
            is_strangers=order.is_strangers,
            roles=order.roles,
            control=f"unix:{order.control_socket}" if order.control_socket else "127.0.0.1:0",
            agent_host=order.agent_host,
            agent_port=order.agent_port,
            ttl_seconds=order.ttl_seconds,
            traces=order.traces,
        )
        return serve_to_the_end(partial(serve, service), say, partial(_end_of, stdin))
    except UsageError as error:
        say(Failure(error=problem_of(error)))
        return REFUSED


def _order(stdin: int) -> ServeOrder | None:
    """The order; None where there is only an end.

    Raises:
        ConfigError: it is none. What it held is not repeated: it may be secret.
    """
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(stdin, 65536)
        line += piece
        if not piece or len(line) > MAX_ORDER_BYTES:
            break
    if not line.strip():
        return None
    try:
        return ServeOrder.model_validate_json(line)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        told = "; ".join(f"{'.'.join(map(str, problem['loc'])) or 'order'}: {problem['msg']}" for problem in problems)
        raise ConfigError(f"the line on stdin orders nothing: {told}") from None


async def _end_of(stdin: int) -> None:
    """Until whoever holds the other end has closed it, or is gone."""
    try:
        while True:
            await anyio.wait_readable(stdin)
            if not os.read(stdin, 65536):
                return
    except PermissionError:  # a plain file, which cannot be waited for, has no other end
        await anyio.sleep_forever()


def serve_for_people(
    name: str,
    *,
    settings: list[str],
    roles: list[str],
    control: str | None,
    agent_host: str,
    agent_port: int,
    public_url: str | None,
    ttl_seconds: float,
    traces: str | None,
    as_json: bool,
) -> int:
    """Serve what the command line says; the exit code.

    Raises:
        HubError: it cannot be served.
    """
    given = assignments(settings, "--set")
    asked = {role: ModelConfig(name=str(model)) for role, model in assignments(roles, "--role").items()}
    installation = find_installation(name)
    tools_digest = os.environ.pop(TOOLS_VARIABLE, None)
    if installation is not None:
        tools_digest = run_async(see_that_it_is_sound, installation, given, asked)
        if installation.is_class:
            hand_over(installation, name, tools_digest)
    with control_credential(control) as credential:
        service = Service(
            environment=name if installation is None else str(installation.file),
            control_token=credential.token,
            python=None if installation is None else str(installation.python),
            config=given,
            roles=asked,
            control=credential.address,
            agent_host=agent_host,
            agent_port=agent_port,
            public_url=public_url.rstrip("/") if public_url else None,
            ttl_seconds=ttl_seconds,
            traces=traces,
            tools_digest=tools_digest,
        )
        return serve_to_the_end(partial(serve, service), lambda ready: _announce(ready, credential, as_json))


def _announce(ready: ServerReady, credential: ControlCredential, as_json: bool) -> None:
    """Say where the server is; of the credential only where it is kept."""
    if as_json:
        typer.echo(ready.model_dump_json())
        return
    curl, shown = credential.curl(ready.control_url)
    typer.echo(
        f"serving {ready.name} (Ctrl-C stops it)\n"
        f"  agents:  {ready.agent_url}/e/TOKEN/mcp, a token for each episode's seat\n"
        f"  control: {ready.control_url}\n"
        + (f"  control credential: {credential.file}\n" if credential.file else "")
        + f"  try it:  {curl}/v1/environment {shown}"
    )
