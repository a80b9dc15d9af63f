"""Side-cars: the further containers of a task, each in the network of the container that it is beside."""

import logging
import math
import shlex
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import anyio
from anyio.abc import TaskStatus

from rollouthub.errors import ConfigError, DataError, SandboxError
from rollouthub.event_loop import background_tasks
from rollouthub.sandbox import (
    MIB,
    Build,
    CommandNotStarted,
    File,
    Resources,
    Sandbox,
    SandboxFileError,
    SandboxRef,
    SandboxSpec,
    Snapshot,
)
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.harbor.compose import MAIN, Compose, HealthSection, Service
from rollouthub_servers.terminal.harbor.settings import Healthcheck
from rollouthub_servers.terminal.harbor.task_files import folder_files
from rollouthub_servers.terminal.health import NotBegun, see_that_it_is_healthy

COMPLETION_SECONDS = 600.0
"""Most seconds that a service may take to end where another one waits for that."""
LEAST_MEMORY = 16 * MIB
_TAIL_BYTES = 1_000
_QUICK_SECONDS = 1.0
"""Seconds between two health checks: a service that is ready is not kept waiting for its own, longer interval."""
_WHERE = "environment/docker-compose.yaml"
logger = logging.getLogger(__name__)


class Opener(Protocol):
    """Opens a fresh sandbox."""

    def __call__(
        self, spec: SandboxSpec, *, snapshot: Snapshot | None = None
    ) -> AbstractAsyncContextManager[Sandbox]: ...


class _SideCar:
    """A service while it runs."""

    def __init__(self, name: str, service: Service) -> None:
        self.name, self.service = name, service
        self.exit_status: int | None = None
        self.ended = anyio.Event()
        self._tail = bytearray()

    async def run(
        self,
        sandbox: AbstractAsyncContextManager[Sandbox],
        compose: Compose,
        beside: dict[str, Sandbox],
        *,
        task_status: TaskStatus[None],
    ) -> None:
        """Open its container, start its program, and stay until cancelled."""
        is_up = False
        try:
            async with sandbox as opened:
                await _place_files(opened, compose.folder, self.service, user="0")
                command = _command(self.service, opened.ref)
                async with opened.start(command, timeout_seconds=None) as program:
                    beside[self.name], is_up = opened, True
                    task_status.started()
                    async for _, data in program.output():
                        self._tail += data
                        del self._tail[:-_TAIL_BYTES]
                    self.exit_status = (await program.wait()).exit_status
                    self.ended.set()
                    await anyio.sleep_forever()
        except (CommandNotStarted, SandboxFileError, DataError, ConfigError) as error:
            raise NotBegun(self.describe(f"could not be started: {error}")) from error
        except SandboxError as error:
            if not is_up:
                raise
            logger.warning("the side-car %r broke: %s", self.name, error)
            self.ended.set()

    def describe(self, what: str) -> str:
        """A sentence about it, with the end of what its program said."""
        said = self._tail.decode(errors="replace").strip()
        return f"{_WHERE}: services.{self.name} {what}" + (f"; it said: {said}" if said else "")


@asynccontextmanager
async def side_cars(
    compose: Compose, main: Sandbox, network: str, config: TerminalConfig, open_sandbox: Opener
) -> AsyncGenerator[Mapping[str, Sandbox]]:
    """Start the services of a compose file beside a container, in order; yields their sandboxes by name.

    Raises:
        NotBegun: one does not start, or is not healthy.
        SandboxError: a sandbox broke.
    """
    beside: dict[str, Sandbox] = {}
    cars: dict[str, _SideCar] = {}
    async with background_tasks() as tasks:
        for name, service in compose.services.items():
            await _wait_for(service, cars, beside)
            car = cars[name] = _SideCar(name, service)
            spec = _spec(service, compose, main, network, config)
            await tasks.start(car.run, open_sandbox(spec), compose, beside)
        for name, car in cars.items():
            await _healthy(car, beside[name])
        await _prepare_main(compose, main)
        yield beside


async def see_that_they_live(beside: Mapping[str, Sandbox]) -> None:
    """Check that no side-car was lost.

    Raises:
        SandboxError: the container of one broke.
    """
    for sandbox in beside.values():
        await sandbox.list_files("/", max_entries=10_000)


def _spec(service: Service, compose: Compose, main: Sandbox, network: str, config: TerminalConfig) -> SandboxSpec:
    limits = service.limits
    image = service.image
    build = service.build
    return SandboxSpec(
        image=image if build is None else build_of(compose.folder, service),
        profile="root-compat",
        network="bridge" if network == "bridge" else "none",
        resources=Resources(
            cpus=limits.cpus or config.cpus,
            memory_bytes=max(limits.memory or config.memory_mb * MIB, LEAST_MEMORY),
            pids=limits.pids if limits.pids and limits.pids > 0 else config.pids,
            disk_bytes=config.storage_mb * MIB,
        ),
        user=service.user,
        workdir=service.working_dir,
        environment={**from_files(compose.folder, service), **service.environment},
        scratch=(),
        has_writable_root=True,
        beside=main.id,
    )


def build_of(folder: Path, service: Service) -> Build:
    """The image that a service is built from."""
    assert service.build is not None
    context = (folder / service.build.context).resolve()
    return Build(context=context, dockerfile=service.build.dockerfile, arguments=service.build.args)


def from_files(folder: Path, service: Service) -> dict[str, str]:
    """The variables in a service's files of variables."""
    found: dict[str, str] = {}
    for name in service.env_file:
        for line in (folder / name).read_text("utf-8", errors="replace").splitlines():
            key, sign, value = line.strip().removeprefix("export ").partition("=")
            if sign and not key.startswith("#"):
                found[key.strip()] = value.strip().strip("'\"")
    return found


def _command(service: Service, ref: SandboxRef) -> list[str]:
    """The program of a service: what the compose file says, else what its image says.

    Raises:
        NotBegun: neither says any.
    """
    if service.entrypoint is not None:
        words = [*service.entrypoint, *(service.command or ())]
    else:
        words = [*ref.image_entrypoint, *(ref.image_command if service.command is None else service.command)]
    if not words:
        raise NotBegun(f"{_WHERE}: the image {ref.image!r} starts no program, and the service names no command")
    return words


async def _place_files(sandbox: Sandbox, folder: Path, service: Service, user: str | None) -> None:
    """Copy the task's files that a service mounts, and make the folders that it would have as volumes."""
    folders = [mount.target for mount in service.volumes if mount.type != "bind"]
    folders += [place.partition(":")[0] for place in service.tmpfs]
    if folders:
        await sandbox.exec(["/bin/sh", "-c", 'mkdir -p -- "$@"', "mkdir", *folders], user=user, cwd="/")
    for mount in service.volumes:
        source = (folder / mount.source).resolve()
        if mount.type != "bind" or not source.exists():
            continue  # what is nowhere in the task is Harbor's own, for its logs
        target = mount.target.rstrip("/")
        if source.is_dir():
            files = await anyio.to_thread.run_sync(folder_files, source, folder)
            await sandbox.exec(["mkdir", "-p", "--", target], user=user, cwd="/")
            await sandbox.place(files, target, user=user)
        else:
            mode = 0o755 if source.stat().st_mode & 0o111 else 0o644
            data = await anyio.to_thread.run_sync(source.read_bytes)
            await sandbox.place([File(target.lstrip("/"), data, mode)], "/", user=user)


async def _wait_for(service: Service, cars: Mapping[str, _SideCar], beside: Mapping[str, Sandbox]) -> None:
    for name, need in service.depends_on.items():
        if name == MAIN or need.condition == "service_started":
            continue
        if need.condition == "service_healthy":
            await _healthy(cars[name], beside[name])
            continue
        with anyio.move_on_after(COMPLETION_SECONDS):
            await cars[name].ended.wait()
        if not cars[name].ended.is_set():
            raise NotBegun(cars[name].describe(f"did not end within {COMPLETION_SECONDS:g} s"))
        if cars[name].exit_status != 0:
            raise NotBegun(cars[name].describe(f"ended with exit status {cars[name].exit_status}"))


async def _healthy(car: _SideCar, sandbox: Sandbox) -> None:
    health = car.service.healthcheck
    if health is None or health.disable or not health.test:
        return
    try:
        await see_that_it_is_healthy(_check(health), sandbox, f"services.{car.name}")
    except NotBegun as error:
        raise NotBegun(car.describe(f"is not healthy: {error}")) from error


def _check(health: HealthSection) -> Healthcheck:
    """A compose health check that is asked often, for as long as the engine would ask it."""
    pause = min(health.interval, _QUICK_SECONDS)
    return Healthcheck(
        command=shlex.join(health.test),
        interval_sec=pause,
        timeout_sec=health.timeout,
        start_period_sec=health.start_period,
        start_interval_sec=min(health.start_interval, _QUICK_SECONDS),
        retries=math.ceil(health.interval * health.retries / pause),
    )


async def _prepare_main(compose: Compose, main: Sandbox) -> None:
    """Do in the agent's own container what the compose file asks for there."""
    user = "0" if main.ref.profile == "root-compat" else None
    try:
        await _place_files(main, compose.folder, compose.main, user)
        if not compose.main.is_idle:
            command = [*(compose.main.entrypoint or ()), *(compose.main.command or ())]
            await main.exec(["/bin/sh", "-c", '"$@" >/dev/null 2>&1 &', "main", *command])
    except (SandboxFileError, CommandNotStarted, DataError) as error:
        raise NotBegun(f"{_WHERE}: services.main cannot be set up: {error}") from error
    health = compose.main.healthcheck
    if health is not None and health.test and not health.disable:
        await see_that_it_is_healthy(_check(health), main)
