"""Serving one environment for people, who read where it is."""

import os
from functools import partial

import typer

from rollouthub.cli.options import assignments
from rollouthub.event_loop import run_async
from rollouthub.hosting.launch import ServerReady
from rollouthub.hosting.server.credential import ControlCredential, control_credential
from rollouthub.hosting.server.other_interpreter import TOOLS_VARIABLE, hand_over, see_that_it_is_sound
from rollouthub.hosting.server.serve import Service, serve
from rollouthub.hosting.server.server_lifetime import serve_to_the_end
from rollouthub.models.config import ModelConfig
from rollouthub.plugins.installed import find_installation


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
