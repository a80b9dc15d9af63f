"""`hub serve`: runs a service and its control plane until asked to stop."""

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import anyio

from rollouthub.engine.plan import Plan
from rollouthub.engine.run_control import LiveRun
from rollouthub.engine.stop_signal import StopSignal
from rollouthub.gateway.sessions.open_service import STOP_SECONDS, open_service
from rollouthub.gateway.sessions.practice import Practice
from rollouthub.gateway.sessions.service import HubService
from rollouthub.gateway.sessions.service_rules import GatewayPlace, ServiceRules
from rollouthub.gateway.sessions.sessions_control import ServiceControl
from rollouthub.hosting.server.control_socket import control_guard, control_socket
from rollouthub.http.listener import listening
from rollouthub.live.control.live_server import open_live_server
from rollouthub.models.credentials import Credentials
from rollouthub.values import Frozen


@dataclass(frozen=True)
class HubOrder:
    """The settings of a serving hub."""

    plan: Plan
    directory: Path
    credentials: Credentials
    control_token: str = field(repr=False)
    control: str
    """The control plane's address: `unix:PATH` or `HOST:PORT`."""
    given: str = ""
    """The request as TOML, to be saved in the run's directory."""
    resume: bool = False
    rules: ServiceRules = field(default_factory=ServiceRules)
    place: GatewayPlace = field(default_factory=GatewayPlace)
    metrics_token: str | None = field(default=None, repr=False)
    """The token for scraping metrics; None if none is required."""
    door: Mapping[str, str] | None = None
    """The environment variables that name where live control is offered; None offers none."""


class HubReady(Frozen):
    """Reported when the hub accepts requests."""

    environments: tuple[str, ...]
    gateway_url: str
    """The gateway's base URL, under which the URLs of seats are."""
    control_url: str
    """The control plane's address: `http://HOST:PORT`, or `unix:PATH`."""
    run: str
    """The run's directory."""
    run_id: str
    pid: int
    practice: tuple[str, ...] = ()
    """Fixed URLs to try an environment, unscored."""
    metrics_url: str | None = None
    """The URL of the Prometheus metrics; None if they are off."""


class _Leaving:
    """When to stop: at the request of the process that started the hub, or of live control."""

    def __init__(self) -> None:
        self._is_draining = False
        self._is_stopping = False
        self._changed = anyio.Event()

    def interrupt(self) -> None:
        """Open nothing new; stop when all open episodes have ended."""
        self._is_draining = True
        self._changed.set()

    def cancel(self) -> None:
        """Stop now."""
        self._is_stopping = True
        self._changed.set()

    async def wait(self, stopped: Callable[[], Awaitable[None]], service: HubService) -> None:
        """Wait until the hub is to stop."""

        async def heed() -> None:
            await stopped()
            self.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heed)
            while not self._is_stopping:
                self._changed = anyio.Event()
                if self._is_draining:
                    tasks.start_soon(self._drain, service)
                await self._changed.wait()
            tasks.cancel_scope.cancel()

    async def _drain(self, service: HubService) -> None:
        await service.drain()
        self.cancel()


async def serve_hub(
    order: HubOrder,
    ready: Callable[[HubReady], None],
    stopped: Callable[[], Awaitable[None]],
    give_up: Callable[[], None],
) -> None:
    """Serve until `stopped` returns; `give_up` is called if episodes do not close in time.

    Raises:
        UsageError: an environment, a model, an address or the directory is invalid.
        StoreError: the store failed; records committed before are safe.
    """
    leaving = _Leaving()
    live = LiveRun(StopSignal(), leaving)
    async with AsyncExitStack() as stack:
        bound, control_url = stack.enter_context(control_socket(order.control))
        if order.door is not None:
            await stack.enter_async_context(open_live_server(live, order.door))
        monitor = None
        if (metrics := order.plan.request.metrics) is not None:
            from rollouthub.telemetry.metrics.metrics_endpoint import (
                monitored,  # prometheus_client, and only where it is asked for
            )

            monitor = await stack.enter_async_context(monitored(metrics, live, None, token=order.metrics_token))
        service = await stack.enter_async_context(
            open_service(
                order.plan,
                order.directory,
                order.credentials,
                given=order.given,
                resume=order.resume,
                rules=order.rules,
                place=order.place,
                live=live,
                on_commit=None if monitor is None else monitor.committed,
                give_up=give_up,
            )
        )
        control = ServiceControl(service, order.control_token, control_guard(control_url))
        await stack.enter_async_context(listening(control, bound))
        practice = Practice(service) if order.rules.practice else None
        service.gateway.practice = practice
        ready(
            HubReady(
                environments=tuple(service.served),
                gateway_url=service.gateway.base_url,
                control_url=control_url,
                run=str(order.directory),
                run_id=service.run_id,
                pid=os.getpid(),
                practice=practice.urls if practice is not None else (),
                metrics_url=None if monitor is None else monitor.url,
            )
        )
        await leaving.wait(stopped, service)
        # While the listeners are up: who waits for a record is still told.
        with anyio.CancelScope(shield=True):
            if not await service.stop(STOP_SECONDS):
                give_up()
