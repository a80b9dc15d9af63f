"""`hub serve stdio`: connects MCP clients that start a program, instead of opening a URL, to a served episode."""

from typing import Annotated

import typer

URL_VARIABLE = "ROLLOUTHUB_AGENT_URL"


def serve_stdio(
    agent_url: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT_URL",
            envvar=URL_VARIABLE,
            show_envvar=True,
            help="The agent's MCP URL. It contains a token: pass it in a variable to hide it from other users.",
        ),
    ] = None,
) -> None:
    """Connect a client that speaks stdio to a served episode."""
    from rollouthub.errors import UsageError
    from rollouthub.hosting.server.stdio_bridge import bridge_stdio

    if not agent_url:
        raise UsageError(f"which seat? give its URL, or set {URL_VARIABLE}")
    bridge_stdio(agent_url)
