"""What `hub serve env` does: serves an environment and prints its addresses."""

import os
from functools import partial
from typing import Any

import typer

from rollouthub.cli.serve.env.env_options import ServeEnvOptions
from rollouthub.event_loop import run_async
from rollouthub.hosting.launch import ServerReady
from rollouthub.hosting.server.credential import ControlCredential, control_credential
from rollouthub.hosting.server.other_interpreter import TOOLS_VARIABLE, hand_over, see_that_it_is_sound
from rollouthub.hosting.server.serve import Service, serve
from rollouthub.hosting.server.server_lifetime import serve_to_the_end
from rollouthub.hosting.server.walled_service import WalledService, serve_walled
from rollouthub.hosting.wall.view import view_of
from rollouthub.hosting.wall.wall import Wall, WallChoice, choice_for, open_wall
from rollouthub.models.config import ModelConfig
from rollouthub.plugins.installed import Installation, find_installation


def serve_for_people(name: str, given: dict[str, Any], options: ServeEnvOptions) -> int:
    """Serve the environment until stopped; returns the exit code.

    Raises:
        HubError: the server cannot be started.
    """
    settings: dict[str, Any] = given.get("set", {})
    roles = {role: ModelConfig(name=model) for role, model in given.get("roles", {}).items()}
    installation = find_installation(name)
    tools_digest = os.environ.pop(TOOLS_VARIABLE, None)
    if installation is not None and tools_digest is None:
        choice: WallChoice = "none" if given.get("trust") else given.get("wall", "auto")
        choice = choice_for(installation, choice)
        wall = None if choice == "none" else run_async(open_wall, choice, view_of(installation, settings))
        if wall is not None:
            return _serve_walled(installation, wall, given, options)
    if installation is not None:
        tools_digest = run_async(see_that_it_is_sound, installation, settings, roles)
        if installation.is_class:
            hand_over(installation, name, tools_digest)
    with control_credential(options.control) as credential:
        service = Service(
            environment=name if installation is None else str(installation.file),
            control_token=credential.token,
            python=None if installation is None else str(installation.python),
            config=settings,
            roles=roles,
            control=credential.address,
            agent_host=options.host,
            agent_port=options.port,
            public_url=options.agents_url,
            ttl_seconds=options.ttl,
            traces=given.get("traces"),
            tools_digest=tools_digest,
        )
        return serve_to_the_end(partial(serve, service), lambda ready: _announce(ready, credential, options.as_json))


def _serve_walled(installation: Installation, wall: Wall, given: dict[str, Any], options: ServeEnvOptions) -> int:
    """Serve an installed environment from behind a wall; returns the exit code."""
    with control_credential(options.control) as credential:
        service = WalledService(
            installation,
            wall,
            control_token=credential.token,
            control=credential.address,
            config=given.get("set", {}),
            roles={role: ModelConfig(name=model) for role, model in given.get("roles", {}).items()},
            agent_host=options.host,
            agent_port=options.port,
            public_url=options.agents_url,
            ttl_seconds=options.ttl,
            traces=given.get("traces"),
        )
        ready = partial(_announce, credential=credential, as_json=options.as_json)
        return serve_to_the_end(partial(serve_walled, service), ready)


def _announce(ready: ServerReady, credential: ControlCredential, as_json: bool) -> None:
    """Print the server's addresses; of the credential, only the file that holds it."""
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
