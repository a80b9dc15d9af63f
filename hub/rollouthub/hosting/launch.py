"""What the hub and an environment server that it starts say to each other: one line of JSON each way.

The hub starts `hub serve env --from-stdin`, writes a `ServeOrder` line to its stdin and keeps stdin open: its end tells
the server to leave, also where the hub was killed. The server answers on stdout with a `ServerReady` line, or with a
`Failure` line and exit code 2. Nothing secret stands on a command line.
"""

import re

from pydantic import Field, JsonValue

from rollouthub.frozen import Frozen

TOKEN_VARIABLE = "ROLLOUTHUB_CONTROL_TOKEN"
"""Holds the control credential of a server somebody else started."""


def is_address(target: str) -> bool:
    """Whether an environment is named by where its server is."""
    return target.startswith(("http://", "https://", "unix:"))


def addresses(target: str) -> list[str]:
    """The addresses of an environment's servers: `http://a:8700,http://b:8700` are two of one environment."""
    return re.split(r",(?=https?://|unix:)", target)


class RoleEndpoint(Frozen):
    """Where a server asks a role's model: an address of the hub's own, never a provider and its key."""

    model: str
    """The model's name, for the record."""
    served_name: str
    base_url: str
    api_key: str = Field(repr=False)


class ServeOrder(Frozen):
    """What to serve, and how."""

    environment: str
    """A name or a path, as `hub run` takes it."""
    python: str | None = None
    """The interpreter that `{python}` stands for in an env.toml; None is the server's own."""
    config: dict[str, JsonValue] = {}
    is_strangers: bool = False
    """Whether it was installed: its images are then built without a network, unless `config` says otherwise."""
    roles: dict[str, RoleEndpoint] = {}
    control_token: str = Field(repr=False)
    control_socket: str | None = None
    """A path for the control plane's unix socket; None takes a free loopback port."""
    agent_host: str = "127.0.0.1"
    agent_port: int = 0
    """0 picks a free port."""
    ttl_seconds: float = Field(default=7200.0, gt=0)
    """Episodes older than this are closed by the server itself."""
    traces: str | None = None
    """The OTLP collector its spans go to; None where nobody traces."""


class ServerReady(Frozen):
    """The server is up."""

    name: str
    control_url: str
    """`http://127.0.0.1:PORT`, or `unix:PATH`."""
    agent_url: str
    """The agent plane's base: seats are below it."""
    pid: int
