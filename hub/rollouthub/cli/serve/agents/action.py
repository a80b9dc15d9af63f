"""What `hub serve agents` does: merges the settings, chooses the directory, serves, and prints the results."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import typer

from rollouthub.cli.logs import log_to_run
from rollouthub.cli.run.action import request_of
from rollouthub.cli.serve.agents.agents_options import ServeAgentsOptions
from rollouthub.engine.directories import fresh_directory
from rollouthub.engine.run_request import as_toml
from rollouthub.gateway.sessions.open_service import external_agents_plan
from rollouthub.gateway.sessions.serve_sessions import HubOrder, HubReady, serve_hub
from rollouthub.gateway.sessions.service_rules import GatewayPlace, ServiceRules
from rollouthub.hosting.server.credential import ControlCredential, control_credential
from rollouthub.hosting.server.server_lifetime import serve_to_the_end
from rollouthub.models.credentials import load_credentials
from rollouthub.store import open_run


def serve_command(given: dict[str, Any], options: ServeAgentsOptions) -> int:
    """Serve until stopped; returns the exit code.

    Raises:
        HubError: the server cannot be started.
    """
    request = request_of(given, options.config, options.output, options.resume)
    plan = external_agents_plan(request)
    directory = options.output or fresh_directory("serve")
    with control_credential(options.control) as credential, log_to_run(directory):
        order = HubOrder(
            plan=plan,
            directory=directory,
            credentials=load_credentials(os.environ, Path.cwd()),
            control_token=credential.token,
            control=credential.address,
            given=as_toml(request),
            resume=options.resume,
            door=os.environ,
            metrics_token=os.environ.get("ROLLOUTHUB_METRICS_TOKEN") or None,
            rules=ServiceRules(
                ttl_seconds=options.ttl,
                turn_seconds=options.turn_timeout,
                most_open=options.most_open,
                requests_per_second=options.rate or None,
                practice=options.practice,
                practice_split=options.practice_split,
            ),
            place=GatewayPlace(options.host, options.port, options.agents_url),
        )
        code = serve_to_the_end(partial(serve_hub, order), lambda ready: _announce(ready, credential, options.as_json))
    if not options.as_json:
        typer.echo(_closing(directory))
    return code


def _announce(ready: HubReady, credential: ControlCredential, as_json: bool) -> None:
    """Print the addresses and the next steps; of the credential, only the file that holds it."""
    if as_json:
        typer.echo(ready.model_dump_json())
        return
    curl, shown = credential.curl(ready.control_url)
    environment = ready.environments[0]
    asked = f'{{"environment": "{environment}"}}'
    lines = [
        f"serving {', '.join(ready.environments)} (Ctrl-C stops it); what is played goes to {ready.run}",
        f"  agents:   {ready.gateway_url}, two URLs for each episode",
        f"  control:  {ready.control_url}",
        *([f"  control credential: {credential.file}"] if credential.file else []),
        *[f"  practice: {url}" for url in ready.practice],
        *([f"  metrics:  {ready.metrics_url}"] if ready.metrics_url else []),
        "",
        "Open an episode, and give its agent_url, llm_url and api_key to an agent:",
        f"  {curl}/v1/episodes {shown} -d '{asked}'",
        "Then end and score it:",
        f"  {curl}/v1/episodes/ID/verify {shown} -X POST",
        f"A desktop app needs none of this: hub connect {environment} --print-config claude",
    ]
    typer.echo("\n".join(lines))


def _closing(directory: Path) -> str:
    with open_run(directory) as reader:
        outcomes = reader.outcomes()
    scored = sum(count for outcome, count in outcomes.items() if outcome.kind == "scored")
    return f"{sum(outcomes.values())} episodes, {scored} scored; look at them with: hub show {directory}"
