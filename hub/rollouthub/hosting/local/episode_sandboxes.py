"""Sandboxes for hosted episodes: finds a provider by name, and records the sandboxes each episode got."""

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from rollouthub.environment import AnyEnvironment, Environment, EnvironmentConfig, SandboxedConfig
from rollouthub.errors import ConfigError, SandboxError, TaskError, UnknownNameError, describe
from rollouthub.hosting.image_progress import Readiness
from rollouthub.hosting.local.environment_faults import hook_faults
from rollouthub.hosting.wall.inside import has_engine
from rollouthub.plugins.entry_points import SANDBOXES, plugins
from rollouthub.sandbox import (
    Build,
    Network,
    ProviderUnavailable,
    Sandbox,
    SandboxProvider,
    SandboxRef,
    SandboxSpec,
    Snapshot,
)

logger = logging.getLogger(__name__)

AUTO = "auto"
_PREFERRED, _EMBEDDED = "docker", "process"


@asynccontextmanager
async def open_sandboxes(
    environment: AnyEnvironment, config: EnvironmentConfig
) -> AsyncGenerator[SandboxProvider | None]:
    """Open the provider that an environment's configuration names, and prepare its specs; None without sandboxes.

    Raises:
        ConfigError: the sandboxes are not available.
    """
    if not isinstance(config, SandboxedConfig):
        yield None
        return
    async with open_provider(config.sandbox) as provider:
        counted = CountedSandboxes(provider, config.build_network)
        await _make_ready(counted, environment.specs(config))
        yield counted


@asynccontextmanager
async def open_provider(name: str) -> AsyncGenerator[SandboxProvider]:
    """Open the provider of a name; `auto` is docker if a container engine answers, else process.

    Raises:
        UnknownNameError: no provider has this name.
        ConfigError: the provider is not installed completely, or what it needs is missing, such as an engine.
    """
    async with AsyncExitStack() as stack:
        try:
            provider = await (_best(stack) if name == AUTO else stack.enter_async_context(_provider(name)))
        except SandboxError as error:
            raise ConfigError(f"there are no sandboxes of the provider {name!r}: {error}") from error
        yield provider


async def _best(stack: AsyncExitStack) -> SandboxProvider:
    if not has_engine():
        raise ConfigError(
            "its sandboxes need a container engine, from which the wall around its server keeps it: declare a "
            "[sandbox] in its env.toml, or run it as a plain process of yours with --trust"
        )
    try:
        return await stack.enter_async_context(_provider(_PREFERRED))
    except ProviderUnavailable as error:
        logger.warning("sandboxes are of the provider %r, as no container engine is at hand: %s", _EMBEDDED, error)
    return await stack.enter_async_context(_provider(_EMBEDDED))


async def _make_ready(provider: SandboxProvider, specs: Sequence[SandboxSpec]) -> None:
    readiness = Readiness(len({str(spec.image) for spec in specs}))
    for spec in specs:
        async with readiness.of(spec):
            try:
                await provider.prepare(spec)
            except SandboxError as error:
                raise ConfigError(f"sandboxes of {spec.image or 'the base image'} cannot be had: {error}") from error


def _provider(name: str) -> AbstractAsyncContextManager[SandboxProvider]:
    known = plugins(SANDBOXES)
    if name not in known:
        raise UnknownNameError("sandbox provider", name, [AUTO, *known])
    try:
        factory: Any = known[name].entry.load()
    except Exception as error:
        raise ConfigError(f"sandbox provider {name!r} cannot be loaded: {describe(error)}") from error
    return factory()


@asynccontextmanager
async def own_sandbox(environment: Environment[Any]) -> AsyncGenerator[Sandbox | None]:
    """The sandbox that an episode has from its beginning to its end; None if its task asks for none.

    Raises:
        SandboxError: the sandbox could not be opened.
        TaskError: the environment's code failed, or asked for something that the provider lacks.
    """
    with hook_faults(f"sandbox_spec of task {environment.task.id!r}"):
        spec = environment.sandbox_spec()
    async with AsyncExitStack() as stack:
        sandbox = None
        if spec is not None:
            try:
                sandbox = await stack.enter_async_context(environment.open_sandbox(spec))
            except ConfigError as error:  # of this one task; the run goes on with the others
                raise TaskError(f"task {environment.task.id!r} has no sandbox: {error}", retryable=False) from error
            environment.sandbox = sandbox
        yield sandbox


class CountedSandboxes:
    """A provider that counts the sandboxes one environment opens, for watchers of the run."""

    def __init__(self, provider: SandboxProvider, build_network: Network = "bridge") -> None:
        self.provider, self._build_network = provider, build_network
        self.live = self.opened = self.failed = self.died = 0
        """Number of sandboxes open now (`live`), opened so far, that could not be opened, and that broke while open."""

    @property
    def name(self) -> str:
        """The provider's name."""
        return self.provider.name

    async def prepare(self, spec: SandboxSpec) -> None:
        """Prepare a spec as the counted provider does."""
        await self.provider.prepare(self._walled(spec))

    def _walled(self, spec: SandboxSpec) -> SandboxSpec:
        """The spec, with no network for the build of its image if builds have none."""
        if self._build_network == "bridge" or not isinstance(spec.image, Build):
            return spec
        return spec.model_copy(update={"image": spec.image.model_copy(update={"network": self._build_network})})

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AsyncGenerator[Sandbox]:
        """Open a sandbox as the counted provider does, and count it while it is open."""
        is_open = False
        try:
            async with self.provider.open(self._walled(spec), snapshot=snapshot) as sandbox:
                is_open = True
                self.live += 1
                self.opened += 1
                try:
                    yield sandbox
                finally:
                    self.live -= 1
                    self.died += not sandbox.is_alive
        except (ConfigError, SandboxError):
            self.failed += not is_open
            raise


class NotedSandboxes:
    """A provider that records the sandboxes one episode opens."""

    def __init__(self, provider: SandboxProvider, refs: list[SandboxRef]) -> None:
        self._provider, self._refs = provider, refs

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._provider.name

    async def prepare(self, spec: SandboxSpec) -> None:
        """Prepare a spec as the provider does."""
        await self._provider.prepare(spec)

    @asynccontextmanager
    async def open(self, spec: SandboxSpec, *, snapshot: Snapshot | None = None) -> AsyncGenerator[Sandbox]:
        """Open a sandbox and record its reference; equal references are recorded once."""
        async with self._provider.open(spec, snapshot=snapshot) as sandbox:
            if sandbox.ref not in self._refs:
                self._refs.append(sandbox.ref)
            yield sandbox
