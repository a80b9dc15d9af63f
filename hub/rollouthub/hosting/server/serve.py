"""Serving one environment until asked to stop."""

import logging
import os
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import anyio
from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.generation import Model
from rollouthub.hosting.launch import RoleEndpoint, ServerReady
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.hosting.role_endpoints import ask_role
from rollouthub.hosting.server.agent_plane import AgentPlaneApp, new_user
from rollouthub.hosting.server.control_plane import ControlPlane
from rollouthub.hosting.server.control_socket import authority, control_guard, control_socket
from rollouthub.hosting.server.served_episodes import Episodes
from rollouthub.hosting.server.server_metrics import Metrics
from rollouthub.http.asgi import Application, Guard
from rollouthub.http.listener import bind_tcp, bind_unix, listening
from rollouthub.http.loopback import LOOPBACK
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import Credentials, load_credentials
from rollouthub.models.resolve import open_model
from rollouthub.plugins.components import component
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import EnvironmentHost

logger = logging.getLogger(__name__)

STOP_SECONDS = 6.0
"""Closing every episode may take this long; who started the server may not wait much longer."""
_WILDCARDS = ("0.0.0.0", "::")


@dataclass(frozen=True)
class Service:
    """What to serve, where, and for whom."""

    environment: str
    control_token: str = field(repr=False)
    python: str | None = None
    """What `{python}` stands for in its env.toml; None is this interpreter."""
    config: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    is_strangers: bool = False
    """Whether it was installed: its images are then built without a network, unless `config` says otherwise."""
    roles: Mapping[str, ModelConfig | RoleEndpoint] = field(default_factory=dict[str, "ModelConfig | RoleEndpoint"])
    control: str = "127.0.0.1:0"
    """`unix:PATH` or `HOST:PORT`."""
    agent_host: str = "127.0.0.1"
    agent_port: int = 0
    agent_socket: str | None = None
    """Path of a unix socket for the agent plane, in the place of a port; it needs a `public_url`."""
    public_url: str | None = None
    """The agent plane as agents reach it, where that is not what it listens on."""
    ttl_seconds: float = 7200.0
    traces: str | None = None
    """The OTLP collector that spans go to; None makes none."""
    tools_digest: str | None = None
    """What its tools were when it was seen to be what was published; None takes them as they are."""


@dataclass(frozen=True)
class Serving:
    """A server that is up."""

    ready: ServerReady
    episodes: Episodes


async def serve(
    service: Service,
    ready: Callable[[ServerReady], None],
    stopped: Callable[[], Awaitable[None]],
    give_up: Callable[[], None],
) -> None:
    """Serve until `stopped` returns; `give_up` is called where episodes do not close in time.

    Raises:
        UsageError: the environment, its tools, its configuration, a role or an address does not hold.
    """
    async with AsyncExitStack() as stack:
        host = await _host(service, stack)
        if service.tools_digest not in (None, host.info.tools_digest):
            raise ConfigError(
                f"{host.info.name} offers other tools than a moment ago ({host.info.tools_digest} "
                f"instead of {service.tools_digest}); it is not served: install it again, or tell its owner"
            )
        serving = await stack.enter_async_context(serving_host(host, service, give_up))
        ready(serving.ready)
        await stopped()


@asynccontextmanager
async def serving_host(
    host: EnvironmentHost, service: Service, give_up: Callable[[], None] = lambda: None
) -> AsyncGenerator[Serving]:
    """Serve a host on both planes; on the way out every episode is closed.

    Raises:
        UsageError: an address does not hold.
    """
    async with AsyncExitStack() as stack:
        agents = _agent_socket(service)
        stack.callback(agents.close)
        control, control_url = stack.enter_context(control_socket(service.control))
        agent_url = service.public_url or f"http://{authority(service.agent_host, agents)}"
        metrics = Metrics()
        played, adopting = await _traced(host, service, stack)
        plane = AgentPlaneApp(host.info, Guard(_hosts(service, agent_url)))
        episodes = Episodes(
            played,
            await stack.enter_async_context(anyio.create_task_group()),
            metrics,
            base_url=agent_url,
            ttl_seconds=service.ttl_seconds,
            new_user=new_user,
            retire=plane.retire,
        )
        controls = ControlPlane(host, episodes, metrics, service.control_token, control_guard(control_url))
        await stack.enter_async_context(plane.serving(episodes))
        await stack.enter_async_context(listening(plane, agents))
        await stack.enter_async_context(listening(adopting(controls), control))
        ready = ServerReady(name=host.info.name, control_url=control_url, agent_url=agent_url, pid=os.getpid())
        try:
            yield Serving(ready, episodes)
        finally:
            with anyio.CancelScope(shield=True):
                if not await episodes.stop(STOP_SECONDS):
                    logger.warning("some episodes were not closed within %g s; leaving them", STOP_SECONDS)
                    give_up()


def _agent_socket(service: Service) -> socket.socket:
    if service.agent_socket is None:
        return bind_tcp(service.agent_host, service.agent_port)
    if service.public_url is None:
        raise ConfigError(f"agents cannot reach unix:{service.agent_socket} without a URL for it")
    return bind_unix(service.agent_socket)


async def _traced(
    host: EnvironmentHost, service: Service, stack: AsyncExitStack
) -> tuple[EnvironmentHost, Callable[[Application], Application]]:
    """The host whose episodes make spans, and what makes a control plane say which trace they belong to."""
    if service.traces is None:
        return host, lambda application: application
    credentials = Credentials(os.environ)
    tracer = await stack.enter_async_context(
        component("tracer")(service.traces, credentials, f"rollouthub-{host.info.name}")
    )
    return component("traced_host")(host, tracer), component("adopting_traces")


async def _host(service: Service, stack: AsyncExitStack) -> EnvironmentHost:
    found = find_environment(service.environment, service.python)
    config = configured(found, service.config, is_strangers=service.is_strangers)
    roles = found.environment.roles(config)
    # Whoever serves by hand means what they name; the hub passes on what a run of several environments was given.
    named = {role for role, asked in service.roles.items() if isinstance(asked, ModelConfig)}
    unknown = sorted(named - set(roles))
    if unknown:
        raise ConfigError(
            f"environment {found.name!r} asks no model as its {', '.join(unknown)}; "
            f"the roles it has, so configured: {', '.join(roles) or 'none'}"
        )
    asked = {role: service.roles[role] for role in roles if role in service.roles}
    models = {role: await stack.enter_async_context(_model(model)) for role, model in asked.items()}
    return await stack.enter_async_context(open_in_process(found.name, found.environment, config, models))


@asynccontextmanager
async def _model(asked: ModelConfig | RoleEndpoint) -> AsyncGenerator[Model]:
    if isinstance(asked, ModelConfig):
        async with open_model(asked, load_credentials(os.environ, Path.cwd())) as model:
            yield model
        return
    async with ask_role(asked) as model:
        yield model


def _hosts(service: Service, agent_url: str) -> tuple[str, ...]:
    """The names agents may call this server by; the first is used for what it asks of itself."""
    if service.public_url is None and service.agent_host in _WILDCARDS:
        raise ConfigError(
            f"agents cannot reach {service.agent_host}: say how they do, with --public-url http://HOST:PORT"
        )
    public = urlsplit(agent_url)
    if public.hostname is None or public.scheme not in ("http", "https"):
        raise ConfigError(f"--public-url {agent_url!r} is no http URL")
    return (*LOOPBACK, service.agent_host, public.hostname)
