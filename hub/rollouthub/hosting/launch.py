"""The messages between the hub and an environment server that it starts: one line of JSON each way.

The hub starts `hub serve env --from-stdin`, writes a `ServeOrder` line to its stdin and keeps stdin open: when stdin
ends, also because the hub was killed, the server exits. The server answers on stdout with a `ServerReady` line, or with
a `Failure` line and exit code 2. No secret is passed on a command line.
"""

import re

from pydantic import Field, JsonValue

from rollouthub.values import Frozen

TOKEN_VARIABLE = "ROLLOUTHUB_CONTROL_TOKEN"
"""Environment variable with the control credential of a server that the hub did not start."""


def is_address(target: str) -> bool:
    """Whether a target is the address of an environment server."""
    return target.startswith(("http://", "https://", "unix:"))


def addresses(target: str) -> list[str]:
    """The addresses in a target: `http://a:8700,http://b:8700` are two servers of one environment."""
    return re.split(r",(?=https?://|unix:)", target)


class RoleEndpoint(Frozen):
    """The address at which a server asks a role's model: the hub's own, so that the server gets no provider's key."""

    model: str
    """The model's name, for records."""
    served_name: str
    base_url: str
    api_key: str = Field(repr=False)
    socket: str | None = None
    """Path of a unix socket at which the host of `base_url` is reached; None where its name leads there."""


class ServeOrder(Frozen):
    """What a server is to serve, and how."""

    environment: str
    """A name or a path, as on `hub run`'s command line."""
    python: str | None = None
    """The interpreter that `{python}` stands for in an env.toml; None is the server's own."""
    config: dict[str, JsonValue] = {}
    is_strangers: bool = False
    """Whether the environment was installed from a bundle: its images are then built without a network, unless `config`
    says otherwise.
    """
    roles: dict[str, RoleEndpoint] = {}
    control_token: str = Field(repr=False)
    control_socket: str | None = None
    """Path of the control plane's unix socket; None for a free loopback port."""
    agent_host: str = "127.0.0.1"
    agent_port: int = 0
    """0 picks a free port."""
    agent_socket: str | None = None
    """Path of the agent plane's unix socket, in the place of a port."""
    agent_url: str | None = None
    """Base URL by which `agent_socket` is reached."""
    ttl_seconds: float = Field(default=7200.0, gt=0)
    """Seconds after which the server closes an episode by itself."""
    traces: str | None = None
    """URL of the OTLP collector for spans; None for no traces."""


class ServerReady(Frozen):
    """The server's message that it is ready."""

    name: str
    control_url: str
    """`http://127.0.0.1:PORT`, or `unix:PATH`."""
    agent_url: str
    """Base URL of the seats' MCP endpoints."""
    pid: int
