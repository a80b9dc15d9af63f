"""Opening the host of an environment: in this process, in another process, or at the address of a running server."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import anyio.to_thread
from pydantic import JsonValue

from rollouthub.environment import AnyEnvironment, EnvironmentConfig, SandboxedConfig
from rollouthub.errors import ConfigError, HubError
from rollouthub.generation import Model
from rollouthub.hosting.launch import RoleEndpoint, addresses
from rollouthub.hosting.local.episode_sandboxes import open_sandboxes
from rollouthub.hosting.local.host import InProcessHost
from rollouthub.hosting.server_program import OURS, ServerProgram
from rollouthub.hosting.wall.inside import describe_behind
from rollouthub.hosting.wall.wall import WallChoice
from rollouthub.hosting.wall.walled_start import program_of
from rollouthub.plugins.agents import check_config
from rollouthub.plugins.environments import FoundEnvironment
from rollouthub.plugins.installed import Installation, installations
from rollouthub.protocols import EnvironmentHost


def configured(
    found: FoundEnvironment, settings: Mapping[str, JsonValue], *, is_strangers: bool = False
) -> EnvironmentConfig:
    """The configuration of an environment: its registered defaults, and what the caller sets.

    Images of a stranger's are built without a network, whatever its own defaults say, unless the caller sets one.

    Raises:
        ConfigError: says which settings are wrong.
    """
    has_sandboxes = issubclass(found.environment.config_type, SandboxedConfig)
    walled = {"build_network": "none"} if is_strangers and has_sandboxes else {}
    values = {**found.defaults, **walled, **settings}
    return check_config(found.environment.config_type, values, f"environment {found.name!r}", "--set")


@asynccontextmanager
async def open_in_process(
    name: str,
    environment: AnyEnvironment,
    config: EnvironmentConfig,
    models: Mapping[str, Model] | None = None,
    *,
    look: Callable[[EnvironmentHost], Awaitable[None]] | None = None,
) -> AsyncGenerator[EnvironmentHost]:
    """Host an environment class in this process; `look` may refuse it by its tasks, before its sandboxes are opened.

    Raises:
        HubError: what `look` raises.
        ConfigError: the class or its configuration does not hold, or the sandboxes it needs cannot be had.
    """
    async with AsyncExitStack() as stack:
        try:
            await environment.prepare(config)
            if look is not None and isinstance(config, SandboxedConfig):
                await look(InProcessHost(name, environment, config, models))
            sandboxes = await stack.enter_async_context(open_sandboxes(environment, config))
            host = InProcessHost(name, environment, config, models, sandboxes)
        except HubError:
            raise
        except Exception as error:
            raise ConfigError(f"environment {name!r} cannot be hosted: {describe_behind(error)}") from error
        yield host


@asynccontextmanager
async def open_served(
    name: str,
    settings: Mapping[str, JsonValue],
    roles: Mapping[str, RoleEndpoint] | None = None,
    servers: int = 1,
    *,
    traces: str | None = None,
    program: ServerProgram | None = None,
) -> AsyncGenerator[EnvironmentHost]:
    """Host an environment in a process of its own, or several, which are started here and end with the context.

    Raises:
        ConfigError: the server refuses the environment or its configuration.
        TaskError: it does not come up.
    """
    from rollouthub.hosting.client import serve, serve_replicas  # aiohttp, and only where there is a server

    given, program = (name, settings, roles or {}), program or OURS
    if servers == 1:
        one = serve(*given, traces=traces, program=program)
    else:
        one = serve_replicas(*given, servers, traces=traces, program=program)
    async with one as host:
        yield host


@asynccontextmanager
async def open_installed(
    installation: Installation,
    settings: Mapping[str, JsonValue],
    roles: Mapping[str, RoleEndpoint] | None = None,
    servers: int = 1,
    *,
    traces: str | None = None,
    wall: WallChoice = "auto",
) -> AsyncGenerator[EnvironmentHost]:
    """Host an installed environment, in a process of its own behind a wall, once it is seen to be what was installed.

    Raises:
        UsageError: what lies on the disk is not what was installed, the server offers other tools than published, or
            the wall does not work here.
        TaskError: it does not come up.
    """
    keeper = installations()
    await anyio.to_thread.run_sync(keeper.verify, installation)
    program = await program_of(installation, settings, roles or {}, wall)
    async with open_served(str(installation.file), settings, roles, servers, traces=traces, program=program) as host:
        served = f"{host.info.name}@{host.info.version}"
        if served != installation.target:
            raise ConfigError(f"{installation.target} is installed, but its server calls itself {served}")
        keeper.admit(installation, host.info.tools)
        yield host


@asynccontextmanager
async def open_attached(
    address: str, token: str | None, *, agent_url: str | None = None
) -> AsyncGenerator[EnvironmentHost]:
    """Use an environment that a running server offers, in any language, at `http://HOST:PORT` or `unix:PATH`.

    Several addresses, with commas between them, are servers of one environment. With `agent_url`, seats that are
    elsewhere are refused.

    Raises:
        UsageError: nothing is there, the credential is missing or refused, or it speaks another contract.
    """
    from rollouthub.hosting.client import attach  # as above

    async with attach(addresses(address), token, agent_url=agent_url) as host:
        yield host
