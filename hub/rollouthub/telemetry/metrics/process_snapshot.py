"""Takes a snapshot of this process's figures, in a run's own process or in a worker of a pool."""

import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable
from urllib.parse import urlsplit

from rollouthub.generation import Model
from rollouthub.models.latency import spread
from rollouthub.protocols import EnvironmentHost
from rollouthub.sandbox import SandboxProvider
from rollouthub.telemetry.metrics.counter_histogram import Histogram
from rollouthub.telemetry.metrics.machine_usage import usage
from rollouthub.telemetry.metrics.network import network_bytes
from rollouthub.telemetry.metrics.process_figures import (
    Backend,
    Gpu,
    ModelLoad,
    ProcessSnapshot,
    SandboxLoad,
    ServerLoad,
)

if TYPE_CHECKING:
    from rollouthub.models.call_counts import CallCounts
    from rollouthub.models.router.replica import ReplicaStatus


class Stateful(Protocol):
    """An attempt in flight."""

    @property
    def state(self) -> str: ...


@runtime_checkable
class RoutedModel(Protocol):
    """A model behind a router: waiting and running tries, the most at once, and the state of each server."""

    name: str

    @property
    def waiting(self) -> int: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def limit(self) -> int: ...
    def status(self) -> "tuple[ReplicaStatus, ...]": ...


@runtime_checkable
class CountingModel(Protocol):
    """A model without a router, which counts its own calls."""

    name: str
    counts: "CallCounts"


@runtime_checkable
class SandboxedHost(Protocol):
    """A host whose environment's sandboxes are opened in this process."""

    @property
    def sandboxes(self) -> SandboxProvider | None: ...


@runtime_checkable
class ServedHost(Protocol):
    """A host whose environment runs in other processes."""

    @property
    def servers_up(self) -> Sequence[bool]: ...


@runtime_checkable
class CountedProvider(Protocol):
    """A sandbox provider that counts the sandboxes it has opened."""

    provider: SandboxProvider

    live: int
    opened: int
    failed: int
    died: int


class PoolStatistics(Protocol):
    """The statistics of a pool of warm sandboxes."""

    @property
    def warm(self) -> int: ...
    @property
    def making(self) -> int: ...
    @property
    def ending(self) -> int: ...


@runtime_checkable
class WarmProvider(Protocol):
    """A sandbox provider that starts sandboxes in advance."""

    @property
    def statistics(self) -> PoolStatistics: ...


def take_snapshot(
    process: str,
    *,
    attempts: Iterable[Stateful] = (),
    models: Mapping[str, Model] | None = None,
    hosts: Iterable[EnvironmentHost] = (),
    lag: Histogram | None = None,
    spans_dropped: int = 0,
    gpus: Iterable[Gpu] = (),
) -> ProcessSnapshot:
    """A snapshot of this process; `models` are the models that it calls, by role, and `hosts` the environments that
    it plays.
    """
    hosts = tuple(hosts)
    received, sent = network_bytes() or (None, None)
    routed = [model for model in (models or {}).values() if isinstance(model, RoutedModel)]
    snapshot = ProcessSnapshot(
        process=process,
        usage=usage(),
        states=dict(Counter(attempt.state for attempt in attempts)),
        backends=list(backends_of(models or {})),
        models=[ModelLoad(model.name, model.waiting, model.in_flight, model.limit) for model in routed],
        sandboxes=list(sandboxes_of(hosts)),
        servers=[
            ServerLoad(host.info.name, len(up), sum(up))
            for host in hosts
            if isinstance(host, ServedHost) and (up := host.servers_up)
        ],
        spans_dropped=spans_dropped,
        gpus=list(gpus),
        received_bytes=received,
        sent_bytes=sent,
        machine=socket.gethostname(),
    )
    if lag is not None:
        snapshot.lag.add(lag)
    return snapshot


def backends_of(models: Mapping[str, Model]) -> Iterator[Backend]:
    """The present figures of the servers of models; `models` are given by role."""
    for role, model in models.items():
        if isinstance(model, RoutedModel):
            for status in model.status():
                yield _backend(role, status)
        elif isinstance(model, CountingModel):
            yield _counted(role, model)


def _backend(role: str, status: "ReplicaStatus") -> Backend:
    return Backend(
        model=status.model,
        place=_public(status.place),
        in_flight=status.in_flight,
        calls=status.calls,
        errors=status.errors,
        is_up=not status.is_paused,
        latency_seconds=status.latency_seconds,
        limit=status.limit,
        role=role,
        latency_p95_seconds=status.latency_p95_seconds,
        standing=status.standing,
        reason=status.reason,
    )


def _counted(role: str, model: CountingModel) -> Backend:
    counts = model.counts
    latency = spread(counts.latest)
    return Backend(
        model=model.name,
        place=model.name,
        in_flight=counts.in_flight,
        calls=counts.calls,
        errors=counts.errors,
        is_up=True,
        latency_seconds=None if latency is None else latency[0],
        role=role,
        latency_p95_seconds=None if latency is None else latency[1],
    )


def _public(place: str) -> str:
    """An address without user, password and query."""
    parts = urlsplit(place)
    if not parts.scheme or not parts.netloc:
        return place
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def sandboxes_of(hosts: Iterable[EnvironmentHost]) -> Iterator[SandboxLoad]:
    """The figures of the sandboxes of environments that are hosted in this process."""
    for host in hosts:
        load = _sandboxes(host)
        if load is not None:
            yield load


def _sandboxes(host: EnvironmentHost) -> SandboxLoad | None:
    provider = host.sandboxes if isinstance(host, SandboxedHost) else None
    if provider is None or not isinstance(provider, CountedProvider):
        return None
    pool = provider.provider.statistics if isinstance(provider.provider, WarmProvider) else None
    return SandboxLoad(
        environment=host.info.name,
        provider=provider.name,
        live=provider.live,
        opened=provider.opened,
        failed=provider.failed,
        died=provider.died,
        warm=None if pool is None else pool.warm,
        starting=None if pool is None else pool.making,
        ending=None if pool is None else pool.ending,
    )
