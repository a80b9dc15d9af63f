"""What one process of a run knows of itself: plain structs that workers can send, and the driver sums."""

from typing import Literal

import msgspec

from rollouthub.telemetry.metrics.counter_histogram import LAG_BOUNDS as _LAG
from rollouthub.telemetry.metrics.counter_histogram import Histogram, empty

HUB = "hub"
"""The process that keeps the run's records."""


class Backend(msgspec.Struct, frozen=True):
    """One server of a model."""

    model: str
    place: str
    """Its address, without anything secret."""
    in_flight: int
    calls: int
    errors: int
    is_up: bool
    latency_seconds: float | None = None
    """The median of its last answers."""
    limit: float | None = None
    """Calls it may have at once."""
    role: str = ""
    """Who asks it: `policy`, or a role of the environment's."""
    latency_p95_seconds: float | None = None
    standing: Literal["up", "cooling", "open"] = "up"
    """`cooling`: it is held off for a moment, or on trial; `open`, as of a circuit breaker: no call goes there."""
    reason: str | None = None
    """Why it gets no calls, or fewer than there are."""


class ModelLoad(msgspec.Struct, frozen=True):
    """A model over its servers."""

    model: str
    waiting: int
    """Calls that wait for a connection, a limit or a server."""
    in_flight: int
    limit: int
    """Connections at once."""


class SandboxLoad(msgspec.Struct, frozen=True):
    """The sandboxes of one environment hosted here."""

    environment: str
    provider: str
    live: int
    """Held by episodes and verifiers now."""
    opened: int
    failed: int
    """Could not be had."""
    died: int
    """Broke while they were held."""
    warm: int | None = None
    """Ready ahead; None where there is no pool."""
    starting: int | None = None
    ending: int | None = None


class ServerLoad(msgspec.Struct, frozen=True):
    """The servers of one environment that is played over a wire."""

    environment: str
    servers: int
    up: int


class StoreLoad(msgspec.Struct, frozen=True):
    """The writer of a run's records."""

    waiting: int
    """Records that are not committed yet."""
    commits: int
    records: int
    seconds: float
    """Of all commits."""
    longest_seconds: float
    free_bytes: int | None = None
    """On the disk of the run's directory."""
    disk_bytes: int | None = None


class PoolLoad(msgspec.Struct, frozen=True):
    """Where episodes are played."""

    in_flight: int
    concurrency: int | None = None
    """None where something else than a pool decides."""
    workers: int | None = None
    """Processes that should play; None where this one does."""
    workers_alive: int | None = None


class ProcessUsage(msgspec.Struct, frozen=True):
    """What a process uses of its machine."""

    cpu_seconds: float
    children_cpu_seconds: float
    """Of what it started, such as environment servers."""
    resident_bytes: int
    read_bytes: int | None = None
    """From disks; None where the system does not say."""
    written_bytes: int | None = None


class Gpu(msgspec.Struct, frozen=True):
    """One graphics processor of this machine."""

    index: int
    name: str
    used_share: float
    """Of the time, 0 to 1."""
    memory_used_bytes: int
    memory_bytes: int


class ProcessSnapshot(msgspec.Struct):
    """One process of a run as it stands. Sent as JSON by workers; the driver exposes every one it has."""

    process: str
    """Names it in the run: `hub`, or a worker's name."""
    usage: ProcessUsage
    states: dict[str, int] = {}
    """Episodes in flight by state."""
    lag: Histogram = msgspec.field(default_factory=lambda: empty(_LAG))
    """How late its event loop was."""
    backends: list[Backend] = []
    models: list[ModelLoad] = []
    sandboxes: list[SandboxLoad] = []
    servers: list[ServerLoad] = []
    spans_dropped: int = 0
    gpus: list[Gpu] = []
    machine: str = ""
    """Names its machine, whose processors are shown once."""


def encode(snapshot: ProcessSnapshot) -> bytes:
    """As a worker sends it."""
    return msgspec.json.encode(snapshot)


def decode(sent: bytes) -> ProcessSnapshot:
    """What a worker sent.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    return msgspec.json.decode(sent, type=ProcessSnapshot)
