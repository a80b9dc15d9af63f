"""The state of model servers, workers and sandboxes of a run, from what is recorded anyway; no server is asked."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rollouthub.engine.run_control import LiveRun
from rollouthub.live.control.live_views import BackendView, SandboxesView, WorkerView
from rollouthub.telemetry.metrics.process_figures import Backend, ProcessSnapshot, SandboxLoad
from rollouthub.telemetry.metrics.process_snapshot import backends_of, sandboxes_of
from rollouthub.text import one_line, plain_name

MOST_SHOWN = 256
"""Most entries shown of each kind."""
REASON_CHARACTERS = 300
_LOGIN = re.compile(r"://[^/\s@]*@")
_QUERY = re.compile(r"(://[^\s?]*)\?[^\s'\"]*")
_WORST = {"up": 0, "cooling": 1, "open": 2}


class Place(Protocol):
    """A worker of a pool."""

    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def node(self) -> str: ...
    @property
    def pid(self) -> int | None: ...
    @property
    def in_flight(self) -> int: ...
    @property
    def done(self) -> int: ...


@runtime_checkable
class PlacedPool(Protocol):
    """A pool whose episodes are played by workers."""

    def look(self) -> tuple[Sequence[Place], Sequence[ProcessSnapshot]]:
        """The workers and the state of their processes at their last report; also requests such reports for a while."""
        ...


@dataclass(frozen=True, slots=True)
class Machines:
    """The workers, servers and sandboxes that a run plays on."""

    backends: tuple[BackendView, ...] = ()
    staff: tuple[WorkerView, ...] = ()
    sandboxes: tuple[SandboxesView, ...] = ()


def machines(live: LiveRun) -> Machines:
    """The machines of a run, as known here, or as its workers last reported."""
    parts = live.parts
    if parts is None:
        return Machines()
    pool = parts.pool
    if isinstance(pool, PlacedPool):
        places, snapshots = pool.look()
        backends = [backend for snapshot in snapshots for backend in snapshot.backends]
        loads = [load for snapshot in snapshots for load in snapshot.sandboxes]
        staff = tuple(_worker(place) for place in places[:MOST_SHOWN])
    else:
        backends, loads, staff = list(backends_of(parts.models)), list(sandboxes_of(parts.hosts)), ()
    return Machines(_together(backends), staff, _added(loads))


def _together(backends: Iterable[Backend]) -> tuple[BackendView, ...]:
    """One for each server; of several workers the calls together, and the worst of what is no count."""
    found: dict[tuple[str, str, str], list[Backend]] = {}
    for backend in backends:
        found.setdefault((backend.role, backend.model, backend.place), []).append(backend)
    return tuple(_backend(same) for same in list(found.values())[:MOST_SHOWN])


def _backend(same: Sequence[Backend]) -> BackendView:
    worst = max(same, key=lambda backend: _WORST[backend.standing])
    return BackendView(
        model=plain_name(worst.model),
        role=plain_name(worst.role),
        name=plain_name(worst.place),
        in_flight=sum(backend.in_flight for backend in same),
        calls=sum(backend.calls for backend in same),
        errors=sum(backend.errors for backend in same),
        latency_p50=_longest(backend.latency_seconds for backend in same),
        latency_p95=_longest(backend.latency_p95_seconds for backend in same),
        state=worst.standing,
        reason=None if worst.reason is None else public(worst.reason),
    )


def _longest(seconds: Iterable[float | None]) -> float | None:
    return max((round(each, 6) for each in seconds if each is not None), default=None)


def public(reason: str) -> str:
    """A server's message on one line, with secrets in addresses removed, and shortened."""
    said = _QUERY.sub(r"\1", _LOGIN.sub("://", reason[: 4 * REASON_CHARACTERS]))
    return one_line(said, REASON_CHARACTERS)


def _worker(place: Place) -> WorkerView:
    return WorkerView(
        name=plain_name(place.name),
        node=plain_name(place.node),
        pid=place.pid,
        in_flight=place.in_flight,
        done=place.done,
        state=plain_name(place.state),
    )


def _added(loads: Iterable[SandboxLoad]) -> tuple[SandboxesView, ...]:
    found: dict[tuple[str, str], list[SandboxLoad]] = {}
    for load in loads:
        found.setdefault((load.environment, load.provider), []).append(load)
    return tuple(
        SandboxesView(
            environment=plain_name(environment),
            provider=plain_name(provider),
            in_use=sum(load.live for load in same),
            warm=_sum(load.warm for load in same),
        )
        for (environment, provider), same in list(found.items())[:MOST_SHOWN]
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
