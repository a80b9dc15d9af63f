"""The measurements of `hub bench layers`, sent between processes as JSON: a layer alone, and a whole run."""

from typing import Literal

from rollouthub.engine.run_request import RunRequest
from rollouthub.values import Frozen

LayerName = Literal["model", "environment", "verifier", "transport", "store", "schedule"]
Way = Literal["one process", "served", "ray"]
"""How a run's work is divided among processes."""

Reach = Literal["model", "near", "all"]
"""Which layers are measured: the model only, those of one process, or also the transport to a served environment."""


class Layer(Frozen):
    """The measurement of one kind of operation of a layer, done alone at the run's concurrency."""

    layer: LayerName
    work: str
    per_rollout: float
    """Operations per rollout."""
    per_second: float
    """Operations per second."""
    cpu_ms: float
    """CPU milliseconds of the playing process per operation."""
    server_cpu_ms: float = 0.0
    """CPU milliseconds per operation of the processes that answer, if the benchmark started them."""
    p50_ms: float | None = None
    """Median wall time of an operation in milliseconds; None if it cannot be timed alone."""
    p95_ms: float | None = None
    busy: float = 1.0
    """Share of the time with a core in which the playing or the answering process used its CPU, whichever is larger."""
    without_ms: float = 0.0
    """Milliseconds of the same operation without this layer, which are subtracted from its time."""
    at_twice: float | None = None
    """Operations per second with twice as many in flight; None if not measured."""

    @property
    def seconds_per_rollout(self) -> float:
        """Seconds per rollout that the layer takes at this concurrency."""
        own = 1 / self.per_second
        if self.without_ms:
            own = max(own - self.without_ms / 1000, self.cpu_ms / 1000)
        return self.per_rollout * own

    @property
    def cpu_ms_per_rollout(self) -> float:
        """CPU milliseconds per rollout of the playing process."""
        return self.per_rollout * self.cpu_ms


class Alone(Frozen):
    """The measurements of all layers alone."""

    layers: tuple[Layer, ...]
    tasks: int
    """Number of the environment's tasks, up to the requested limit."""


class LayerRun(Frozen):
    """The measurements of a whole run. CPU is in milliseconds per rollout."""

    rollouts: int
    unscored: int
    per_second: float
    driver_cpu_ms: float
    """CPU of the process that collects the run."""
    workers_cpu_ms: float = 0.0
    """CPU of all Ray workers together."""
    servers_cpu_ms: float = 0.0
    """CPU of other child processes: environment servers, sandboxes, Ray's own processes."""
    model_cpu_ms: float = 0.0
    """CPU of the mock model server; 0 if another model answers."""
    p50_ms: float
    """Median wall time of a rollout, in milliseconds."""
    p95_ms: float

    @property
    def cpu_ms(self) -> float:
        """CPU of all processes together."""
        return self.driver_cpu_ms + self.workers_cpu_ms + self.servers_cpu_ms + self.model_cpu_ms


class Setup(Frozen):
    """The order to a measuring process."""

    request: RunRequest
    seconds: float = 2.0
    """The least number of seconds for which each layer is measured."""
    reach: Reach = "all"
    """Which layers are measured."""
    model_pid: int | None = None
    """Process id of the mock model server; None if another model answers."""
