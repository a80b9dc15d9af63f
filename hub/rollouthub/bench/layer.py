"""What `hub bench layers` measures: one layer alone, and a whole run; both cross from its processes as JSON."""

from typing import Literal

from rollouthub.engine.run_request import RunRequest
from rollouthub.frozen import Frozen

LayerName = Literal["model", "environment", "verifier", "transport", "store", "schedule"]
Way = Literal["one process", "served", "ray"]
"""How a run is spread over processes."""

Reach = Literal["model", "near", "all"]
"""The model alone, the layers of one process, or transport, too."""


class Layer(Frozen):
    """One kind of work of one layer, done alone with so many in flight as the runs have."""

    layer: LayerName
    work: str
    per_rollout: float
    """Operations of a rollout."""
    per_second: float
    """Operations."""
    cpu_ms: float
    """Of the process that plays, for each operation."""
    server_cpu_ms: float = 0.0
    """Of the processes that answer it, for each operation, where they are ours."""
    p50_ms: float | None = None
    """Of an operation's wall time; None where it has none of its own."""
    p95_ms: float | None = None
    busy: float = 1.0
    """The part of the time in which who plays, or who answers, was at work; time without a core left out."""
    without_ms: float = 0.0
    """What the same operation takes of the time without this layer: not its own."""
    at_twice: float | None = None
    """Operations per second with twice as many in flight, where that was tried."""

    @property
    def seconds_per_rollout(self) -> float:
        """What the layer itself takes of the time, for each rollout, with so many in flight."""
        own = 1 / self.per_second
        if self.without_ms:
            own = max(own - self.without_ms / 1000, self.cpu_ms / 1000)
        return self.per_rollout * own

    @property
    def cpu_ms_per_rollout(self) -> float:
        """Of the process that plays."""
        return self.per_rollout * self.cpu_ms


class Alone(Frozen):
    """Every layer by itself."""

    layers: tuple[Layer, ...]
    tasks: int
    """How many the environment has, up to what was asked for."""


class LayerRun(Frozen):
    """One whole run. CPU is in milliseconds for each rollout."""

    rollouts: int
    unscored: int
    per_second: float
    driver_cpu_ms: float
    """Of the process of `hub run`."""
    workers_cpu_ms: float = 0.0
    """Of all Ray workers together."""
    servers_cpu_ms: float = 0.0
    """Of what else the run started: environment servers, sandboxes, Ray's own processes."""
    model_cpu_ms: float = 0.0
    """Of the mock model's server; 0 where somebody else answers."""
    p50_ms: float
    """Of a rollout's wall time."""
    p95_ms: float

    @property
    def cpu_ms(self) -> float:
        """Of all processes together."""
        return self.driver_cpu_ms + self.workers_cpu_ms + self.servers_cpu_ms + self.model_cpu_ms


class Setup(Frozen):
    """What a process of the benchmark is to measure."""

    request: RunRequest
    seconds: float = 2.0
    """How long each layer is measured at least."""
    reach: Reach = "all"
    """Which layers."""
    model_pid: int | None = None
    """The process of the mock model's server."""
