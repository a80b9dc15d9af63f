"""`hub list`: what can be run here."""

import json
from typing import Annotated

import typer


def list_environments(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the environments and agents that are installed."""
    from rich.table import Table

    from envhub.cli.console import results
    from envhub.errors import HubError
    from envhub.plugins import AGENTS, ENVIRONMENTS, find_environment, plugins

    environments: list[dict[str, str]] = []
    for name, plugin in plugins(ENVIRONMENTS).items():
        if not plugin.is_shipped:  # its code is for a process of its own
            summary, version = plugin.summary, plugin.version
            environments.append(
                {"name": name, "version": version, "distribution": plugin.distribution, "summary": summary}
            )
            continue
        try:
            found = find_environment(name)
            summary, version = found.summary, found.environment.version
        except HubError as error:
            summary, version = f"cannot be loaded: {error}", ""
        environments.append({"name": name, "version": version, "distribution": plugin.distribution, "summary": summary})
    agents = [{"name": name, "distribution": plugin.distribution} for name, plugin in plugins(AGENTS).items()]
    if as_json:
        typer.echo(json.dumps({"environments": environments, "agents": agents}))
        return
    console = results()
    table = Table("environment", "version", "from", "what it is", box=None, pad_edge=False)
    for row in environments:
        table.add_row(row["name"], row["version"], row["distribution"], row["summary"])
    console.print(table)
    console.print(f"\nagents: {', '.join(agent['name'] for agent in agents)}")
