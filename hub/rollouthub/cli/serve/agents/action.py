"""What `hub serve agents` does: merge the settings, choose the directory, serve, and say what came of it."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import typer

from rollouthub.cli.logs import log_to_run
from rollouthub.cli.run.action import request_of
from rollouthub.engine.directories import fresh_directory
from rollouthub.engine.run_request import as_toml
from rollouthub.gateway.sessions.open_service import visitors_plan
from rollouthub.gateway.sessions.serve_sessions import HubOrder, HubReady, serve_hub
from rollouthub.gateway.sessions.service_rules import GatewayPlace, ServiceRules
from rollouthub.hosting.server.credential import ControlCredential, control_credential
from rollouthub.hosting.server.server_lifetime import serve_to_the_end
from rollouthub.models.credentials import load_credentials
from rollouthub.store import open_run


def serve_command(
    given: dict[str, Any],
    config: Path | None,
    output: Path | None,
    resume: bool,
    as_json: bool,
    *,
    host: str,
    port: int,
    public_url: str | None,
    control: str | None,
    ttl_seconds: float,
    most_open: int,
    rate: float,
    practice: bool,
    practice_split: str | None,
) -> int:
    """Serve; the exit code.

    Raises:
        HubError: it cannot be served.
    """
    request = request_of(given, config, output, resume)
    plan = visitors_plan(request)
    directory = output or fresh_directory("serve")
    with control_credential(control) as credential, log_to_run(directory):
        order = HubOrder(
            plan=plan,
            directory=directory,
            credentials=load_credentials(os.environ, Path.cwd()),
            control_token=credential.token,
            control=credential.address,
            given=as_toml(request),
            resume=resume,
            door=os.environ,
            metrics_token=os.environ.get("ROLLOUTHUB_METRICS_TOKEN") or None,
            rules=ServiceRules(
                ttl_seconds=ttl_seconds,
                most_open=most_open,
                requests_per_second=rate or None,
                practice=practice,
                practice_split=practice_split,
            ),
            place=GatewayPlace(host, port, public_url.rstrip("/") if public_url else None),
        )
        code = serve_to_the_end(partial(serve_hub, order), lambda ready: _announce(ready, credential, as_json))
    if not as_json:
        typer.echo(_closing(directory))
    return code


def _announce(ready: HubReady, credential: ControlCredential, as_json: bool) -> None:
    """Say where everything is, and what to do next; of the credential only where it is kept."""
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
