"""`hub bench layers`: each layer of a rollout alone, whole runs in different processes, and their bottlenecks.

Every measurement has a fresh process. The mock model server is a further process whose CPU is counted separately.
"""

import importlib.util
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rollouthub.bench.bottleneck import BottleneckVerdict, MeasuredRun, judge
from rollouthub.bench.cell import mock_process, run_cell
from rollouthub.bench.layer import Alone, Layer, LayerRun, Reach, Setup, Way
from rollouthub.engine.plan import make_plan
from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError, HubError, UsageError
from rollouthub.hosting.launch import is_address
from rollouthub.plugins.extras import pip_install

MOCK = "mock/solver"
LAYER_SECONDS, RUN_SECONDS = 2.0, 10.0
QUICK_LAYER_SECONDS, QUICK_RUN_SECONDS = 0.3, 2.0
FEWEST_ROUNDS, MOST_ROLLOUTS = 4, 5000
"""For a whole run: the least number of episodes per slot in flight, and the most rollouts per worker."""


@dataclass(frozen=True)
class NamedRun:
    """The measurements of a whole run, with its name."""

    name: str
    model: str
    workers: int
    played: LayerRun


@dataclass(frozen=True)
class LayersReport:
    """All measurements of `hub bench layers`."""

    environment: str
    in_flight: int
    cores: int
    load: float
    """Load average of the machine at the start; if it exceeds the cores, all wall times are too long."""
    layers: dict[str, tuple[Layer, ...]]
    """Model → its layers; a backend beside the mock model has only the layer `model`."""
    runs: tuple[NamedRun, ...]
    verdicts: tuple[BottleneckVerdict, ...]
    left_out: tuple[str, ...] = ()
    """What could not be measured here, with the reason."""

    @property
    def is_busy(self) -> bool:
        """Whether other programs used the machine's cores."""
        return _is_busy(self.load, self.cores)

    def as_json(self) -> dict[str, Any]:
        """The report as `hub bench layers --json` prints it."""
        return {
            "environment": self.environment,
            "in_flight": self.in_flight,
            "cores": self.cores,
            "load": self.load,
            "layers": [
                {"model": model, **layer.model_dump(mode="json")}
                for model, layers in self.layers.items()
                for layer in layers
            ],
            "runs": [
                {"name": run.name, "model": run.model, "workers": run.workers, **run.played.model_dump(mode="json")}
                for run in self.runs
            ],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "left_out": list(self.left_out),
        }


@dataclass(frozen=True)
class MeasuredModel:
    """A model whose calls are measured."""

    name: str
    settings: dict[str, Any]
    """Settings of the run's request that select this model."""
    pid: int | None
    """Process id of the model's server; None if the benchmark did not start it."""


def measure_layers(
    request: RunRequest,
    say: Callable[[str], None],
    *,
    rollouts: int | None = None,
    workers: int = 2,
    is_quick: bool = False,
) -> LayersReport:
    """Measure the layers of a run and whole runs, with the mock model and with the request's model.

    `request` names one environment and its settings. Its model, where it has one, is measured beside the mock model; a
    mock model takes the place of the usual one. `workers`: of the run on Ray, where Ray is installed; 0 leaves it out.

    Raises:
        UsageError: the request does not hold, or a model server does not answer.
        HubError: no rollout could be scored, or a cell failed; a run on Ray that fails is left out.
    """
    mock, other = _models(request)
    _check(request, other or mock)
    session = _LayerMeasurements(request, say, rollouts, is_quick)
    backend = (
        None if other is None else MeasuredModel(other, {"base_url": request.base_url, "lane": request.lane}, None)
    )
    with mock_process(mock) as (url, pid):
        kind = mock.partition("?")[0]
        main = MeasuredModel(mock, {"model": f"hosted_vllm/{kind}", "base_url": (url,), "lane": None}, pid)
        if backend is not None:
            session.measure(backend, "model")  # before the rest: it may not be there
        session.measure(main, "all")
        session.play(main, "one process", "one process")
        session.play(main, "served", "served")
        if workers == 0:
            session.leave_out("without Ray, as asked")
        elif importlib.util.find_spec("ray") is None:
            session.leave_out(f"without Ray, which is not installed: {pip_install('ray')}")
        else:
            name = f"Ray, {workers} {'worker' if workers == 1 else 'workers'}"
            try:
                session.play(main, name, "ray", workers)
            except HubError as error:  # no reason to throw away what was measured
                session.leave_out(f"{name}: {error}")
    if backend is not None:
        session.play(backend, f"one process, {other}", "one process", like=main)
    return session.report()


def _models(request: RunRequest) -> tuple[str, str | None]:
    """The name of the mock model, and that of the other backend if the request names one."""
    if request.model is None or not request.model.startswith("mock/"):
        return MOCK, request.model
    if request.base_url:
        raise ConfigError(
            f"{request.model} gets a server of the benchmark's own; leave --base-url out, "
            "or name the model as its server does: hosted_vllm/NAME"
        )
    return request.model, None


def _check(request: RunRequest, model: str) -> None:
    """Validate the request before anything is started.

    Raises:
        UsageError: the request cannot be measured.
    """
    for environment in request.environments:
        if is_address(environment):
            raise ConfigError(f"{environment!r} is served by others; layers are measured of what can be started here")
    if request.base_url and request.model is None:
        raise ConfigError("a base URL needs its model; name it with -m, for example -m hosted_vllm/NAME")
    make_plan(request.model_copy(update={"model": model, "in_process": True}))


class _LayerMeasurements:
    """Collects measurements, and chooses the size of the next one from them."""

    def __init__(self, request: RunRequest, say: Callable[[str], None], rollouts: int | None, is_quick: bool) -> None:
        self._request, self._say, self._rollouts = request, say, rollouts
        self._layer_seconds = QUICK_LAYER_SECONDS if is_quick else LAYER_SECONDS
        self._run_seconds = QUICK_RUN_SECONDS if is_quick else RUN_SECONDS
        self._load = round(os.getloadavg()[0], 1)
        self._cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._tasks = 1
        self._layers: dict[str, tuple[Layer, ...]] = {}
        self._runs: list[NamedRun] = []
        self._verdicts: list[BottleneckVerdict] = []
        self._left_out: list[str] = []

    def measure(self, backend: MeasuredModel, reach: Reach) -> None:
        """Measure a backend's layers alone."""
        what = "the model" if reach == "model" else "every layer"
        self._say(f"{what} alone, {backend.name}, {self._request.concurrency} in flight …")
        request = self._asked(backend, limit=MOST_ROLLOUTS, in_process=True)
        alone = Alone.model_validate(self._cell("alone", request, backend, reach=reach))
        self._layers[backend.name] = alone.layers
        self._tasks = alone.tasks

    def play(
        self, backend: MeasuredModel, name: str, way: Way, workers: int = 0, *, like: MeasuredModel | None = None
    ) -> None:
        """Measure a whole run and find its bottleneck; with `like`, layers other than the model are that backend's."""
        layers, in_flight = self._layers[backend.name], self._request.concurrency
        if like is not None:
            layers += tuple(layer for layer in self._layers[like.name] if layer.layer != "model")
        count = self._rollouts or self._enough(layers, workers)
        tasks = min(self._tasks, count)
        request = self._asked(backend, limit=tasks, repeats=math.ceil(count / tasks))
        request = request.model_copy(
            update={
                "served": way == "served",
                "in_process": way != "served",
                "pool": "ray" if way == "ray" else "local",
                "workers": workers or None,
            }
        )
        self._say(f"{name}: {request.repeats * tasks:,} rollouts …")
        played = LayerRun.model_validate(self._cell("run", request, backend))
        self._runs.append(NamedRun(name, backend.name, workers, played))
        is_busy = _is_busy(self._load, self._cores)
        self._verdicts.append(judge(MeasuredRun(name, way, played, in_flight, self._cores, workers, is_busy), layers))

    def leave_out(self, why: str) -> None:
        """Record and print why something is not measured."""
        self._say(why)
        self._left_out.append(why)

    def report(self) -> LayersReport:
        """The report of all measurements."""
        return LayersReport(
            environment=self._request.environments[0],
            in_flight=self._request.concurrency,
            cores=self._cores,
            load=self._load,
            layers=dict(reversed(self._layers.items())),
            runs=tuple(self._runs),
            verdicts=tuple(self._verdicts),
            left_out=tuple(self._left_out),
        )

    def _enough(self, layers: Sequence[Layer], workers: int) -> int:
        """The number of rollouts that fill the measuring time, estimated from the layers' times."""
        in_flight = self._request.concurrency
        rate = max(workers, 1) / sum(layer.seconds_per_rollout for layer in layers if layer.layer != "transport")
        rounds = max(FEWEST_ROUNDS, round(rate * self._run_seconds / in_flight))
        return max(min(rounds * in_flight, MOST_ROLLOUTS * max(workers, 1)), FEWEST_ROUNDS * in_flight)

    def _asked(self, backend: MeasuredModel, **update: Any) -> RunRequest:
        return self._request.model_copy(update={**backend.settings, **update})

    def _cell(self, what: str, request: RunRequest, backend: MeasuredModel, *, reach: Reach = "all") -> dict[str, Any]:
        setup = Setup(request=request, seconds=self._layer_seconds, reach=reach, model_pid=backend.pid)
        said = run_cell("layers_cell", what, setup.model_dump_json(), what=f"{what} with {backend.name}")
        if "error" in said:
            raise (UsageError if said["is_usage"] else HubError)(said["error"])
        return said


def _is_busy(load: float, cores: int) -> bool:
    return load > cores / 2
