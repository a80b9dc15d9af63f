"""The figures that one process of a run reports: plain structs that workers send and the driver sums."""

from typing import Literal

import msgspec

from rollouthub.telemetry.metrics.counter_histogram import LAG_BOUNDS as _LAG
from rollouthub.telemetry.metrics.counter_histogram import Histogram, empty

HUB = "hub"
"""The name of the process that writes the run's records."""


class Backend(msgspec.Struct, frozen=True):
    """The figures of one server of a model."""

    model: str
    place: str
    """The server's address, without credentials."""
    in_flight: int
    calls: int
    errors: int
    is_up: bool
    latency_seconds: float | None = None
    """The median duration of its latest answers in seconds."""
    limit: float | None = None
    """Most calls that the server may have in flight."""
    role: str = ""
    """The role in which the model is called: `policy`, or a role of the environment."""
    latency_p95_seconds: float | None = None
    standing: Literal["up", "cooling", "open"] = "up"
    """`up`; `cooling`: briefly held back, or on trial; `open`, as of a circuit breaker: it gets no calls."""
    reason: str | None = None
    """Why the server gets no calls, or fewer than there are."""


class ModelLoad(msgspec.Struct, frozen=True):
    """The calls of a model, over all its servers."""

    model: str
    waiting: int
    """How many calls wait for a connection, a limit or a server."""
    in_flight: int
    limit: int
    """Most calls in flight at once."""


class SandboxLoad(msgspec.Struct, frozen=True):
    """The sandboxes of one environment that is hosted in this process."""

    environment: str
    provider: str
    live: int
    """Sandboxes that episodes and verifiers hold now."""
    opened: int
    failed: int
    """Sandboxes that could not be opened."""
    died: int
    """Sandboxes that failed while they were held."""
    warm: int | None = None
    """Sandboxes started in advance and ready; None without a pool."""
    starting: int | None = None
    ending: int | None = None


class ServerLoad(msgspec.Struct, frozen=True):
    """The servers of one environment that runs in other processes."""

    environment: str
    servers: int
    up: int


class StoreLoad(msgspec.Struct, frozen=True):
    """The figures of a run's record writer."""

    waiting: int
    """Records that are not committed yet."""
    commits: int
    records: int
    seconds: float
    """Seconds of all commits together."""
    longest_seconds: float
    free_bytes: int | None = None
    """Free bytes on the disk of the run's directory."""
    disk_bytes: int | None = None


class PoolLoad(msgspec.Struct, frozen=True):
    """The figures of the pool that plays episodes."""

    in_flight: int
    concurrency: int | None = None
    """Most episodes at once; None if no pool decides that."""
    workers: int | None = None
    """The wanted number of worker processes; None if this process plays."""
    workers_alive: int | None = None


class ProcessUsage(msgspec.Struct, frozen=True):
    """CPU, memory and disk usage of one process."""

    cpu_seconds: float
    children_cpu_seconds: float
    """CPU seconds of the process's children, such as environment servers."""
    resident_bytes: int
    read_bytes: int | None = None
    """Bytes read from disks; None if the system does not report them."""
    written_bytes: int | None = None


class Gpu(msgspec.Struct, frozen=True):
    """One GPU of this machine."""

    index: int
    name: str
    used_share: float
    """The share of time the GPU was busy, from 0 to 1."""
    memory_used_bytes: int
    memory_bytes: int


class ProcessSnapshot(msgspec.Struct):
    """The figures of one process of a run at one moment. Workers send theirs as JSON; the driver exposes all."""

    process: str
    """The process's name in the run: `hub`, or a worker's name."""
    usage: ProcessUsage
    states: dict[str, int] = {}
    """Numbers of episodes in flight, by state."""
    lag: Histogram = msgspec.field(default_factory=lambda: empty(_LAG))
    """The delays of the process's event loop."""
    backends: list[Backend] = []
    models: list[ModelLoad] = []
    sandboxes: list[SandboxLoad] = []
    servers: list[ServerLoad] = []
    spans_dropped: int = 0
    gpus: list[Gpu] = []
    received_bytes: int | None = None
    """Bytes that the machine's network cards received; None if the system does not report them."""
    sent_bytes: int | None = None
    machine: str = ""
    """The machine's host name; its GPUs and network are exposed once."""


def encode(snapshot: ProcessSnapshot) -> bytes:
    """The snapshot as bytes, for a worker to send."""
    return msgspec.json.encode(snapshot)


def decode(sent: bytes) -> ProcessSnapshot:
    """Parse the bytes that a worker sent.

    Raises:
        msgspec.MsgspecError: the bytes are not a snapshot.
    """
    return msgspec.json.decode(sent, type=ProcessSnapshot)
