"""Serving an installed environment by hand from behind a wall: this process listens, and passes connections on."""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import anyio.to_thread
from pydantic import JsonValue

from rollouthub.errors import ConfigError, TaskError, raise_first_error
from rollouthub.hosting.client.server_connection import connect
from rollouthub.hosting.client.server_process import start
from rollouthub.hosting.launch import RoleEndpoint, ServeOrder, ServerReady
from rollouthub.hosting.role_endpoints import serve_roles_for
from rollouthub.hosting.server.control_socket import authority, control_socket
from rollouthub.hosting.server_program import ServerProgram
from rollouthub.hosting.wall.view import view_of
from rollouthub.hosting.wall.wall import Wall
from rollouthub.hosting.wall.walled_start import server_start
from rollouthub.http.byte_forward import forwarding
from rollouthub.http.listener import bind_tcp
from rollouthub.models.config import ModelConfig
from rollouthub.models.credentials import load_credentials
from rollouthub.models.resolve import open_model
from rollouthub.plugins.installed import Installation, installations


@dataclass(frozen=True)
class WalledService:
    """An installed environment to serve, where, and behind which wall."""

    installation: Installation
    wall: Wall
    control_token: str = field(repr=False)
    control: str
    """`unix:PATH` or `HOST:PORT`."""
    config: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    roles: Mapping[str, ModelConfig] = field(default_factory=dict[str, ModelConfig])
    agent_host: str = "127.0.0.1"
    agent_port: int = 0
    public_url: str | None = None
    ttl_seconds: float = 7200.0
    traces: str | None = None

    def order(self, python: str | None, roles: Mapping[str, RoleEndpoint], agent_url: str) -> ServeOrder:
        """What the server's process is told: its interpreter, the endpoints of its roles, and where agents reach it."""
        return ServeOrder(
            environment=str(self.installation.file),
            python=python,
            is_strangers=True,
            config=dict(self.config),
            roles=dict(roles),
            control_token=self.control_token,
            agent_host=self.agent_host,
            agent_url=agent_url,
            ttl_seconds=self.ttl_seconds,
            traces=self.traces,
        )


async def serve_walled(
    service: WalledService,
    ready: Callable[[ServerReady], None],
    stopped: Callable[[], Awaitable[None]],
    give_up: Callable[[], None],
) -> None:
    """Serve until `stopped` returns, or the server ends.

    Raises:
        UsageError: it is not what was installed, or cannot be served as asked.
        TaskError: its server does not start, or ends.
    """
    installation, keeper = service.installation, installations()
    await anyio.to_thread.run_sync(keeper.verify, installation)
    async with AsyncExitStack() as stack:
        credentials = load_credentials(os.environ, Path.cwd())
        models = {
            role: await stack.enter_async_context(open_model(model, credentials))
            for role, model in service.roles.items()
        }
        roles = await stack.enter_async_context(serve_roles_for(service.wall.kind, models))
        agents = bind_tcp(service.agent_host, service.agent_port)
        stack.callback(agents.close)
        control, control_url = stack.enter_context(control_socket(service.control))
        agent_url = service.public_url or f"http://{authority(service.agent_host, agents)}"
        sockets = [Path(each.socket) for each in roles.values() if each.socket is not None]
        view = view_of(installation, service.config, sockets)
        program = ServerProgram.of(installation).walled(service.wall, view)
        order = service.order(program.python, roles, agent_url)
        prepared = await stack.enter_async_context(server_start(program, order))
        assert prepared.order.control_socket is not None
        assert prepared.order.agent_socket is not None
        process = await start(installation.target, program, prepared)
        try:
            async with raise_first_error(), anyio.create_task_group() as tasks:
                tasks.start_soon(process.hear)
                said = await process.greet(prepared.order)
                tasks.start_soon(process.drain)
                async with connect(prepared.control_url(said), service.control_token) as connection:
                    info = await connection.info()
                if f"{info.name}@{info.version}" != installation.target:
                    raise ConfigError(
                        f"{installation.target} is installed, but its server calls itself {info.name}@{info.version}"
                    )
                keeper.admit(installation, info.tools)
                async with (
                    forwarding(control, Path(prepared.order.control_socket)),
                    forwarding(agents, Path(prepared.order.agent_socket)),
                ):
                    ready(ServerReady(name=info.name, control_url=control_url, agent_url=agent_url, pid=os.getpid()))
                    tasks.start_soon(_until_stopped, stopped, tasks.cancel_scope)
                    await process.wait()
                raise TaskError(f"the server of {installation.target} ended ({await process.last_words()})")
        finally:
            await process.end()
            await process.finish()


async def _until_stopped(stopped: Callable[[], Awaitable[None]], scope: anyio.CancelScope) -> None:
    await stopped()
    scope.cancel()
