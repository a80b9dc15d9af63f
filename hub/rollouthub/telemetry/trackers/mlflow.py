"""The MLflow tracker (extra `mlflow`): writes to `MLFLOW_TRACKING_URI`, or to files in `mlruns/` beside the run."""

import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from rollouthub.telemetry.trackers.tracker import Ending, Point, TrackedRun, needs

EXPERIMENT = "rollouthub"
"""The experiment's name if `MLFLOW_EXPERIMENT_NAME` is not set."""
_RUN_TAG = "rollouthub.run_id"
_METRICS_AT_ONCE, _PARAMS_AT_ONCE, _LONGEST_PARAM = 1000, 100, 500
"""Limits of MLflow's REST API: metrics and parameters per request, characters of a parameter."""
_NOT_IN_NAMES = re.compile(r"[^\w./ -]")
_STATUS = {"finished": "FINISHED", "interrupted": "KILLED", "failed": "FAILED"}


class MLflow:
    """Logs to one MLflow run; a resumed run continues it."""

    def __init__(self, client: Any, run_id: str) -> None:
        self._client, self._run_id = client, run_id
        self.ending: Ending = "failed"

    def write(self, points: Sequence[Point]) -> None:
        """Log the points."""
        metric: Any = import_module("mlflow.entities").Metric
        metrics: list[Any] = [
            metric(_NOT_IN_NAMES.sub("_", name), value, round(point.time * 1000), point.step)
            for point in points
            for name, value in point.values.items()
        ]
        for part in _parts(metrics, _METRICS_AT_ONCE):
            self._client.log_batch(self._run_id, metrics=part)

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """Set how the run ended; the last figures were logged with its last point."""
        self.ending = ending


@needs("mlflow")
@contextmanager
def track(run: TrackedRun) -> Generator[MLflow]:
    """Log a run to MLflow, within the context."""
    address = os.environ.get("MLFLOW_TRACKING_URI") or (run.directory.absolute().parent / "mlruns").as_uri()
    if address.startswith("file:"):
        # Asked for: MLflow 3 wants a database, which its small package cannot open.
        os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    client: Any = import_module("mlflow.tracking").MlflowClient(tracking_uri=address)
    run_id = _run(client, run)
    tracker = MLflow(client, run_id)
    try:
        yield tracker
    finally:
        client.set_terminated(run_id, status=_STATUS[tracker.ending])


def _run(client: Any, run: TrackedRun) -> str:
    """The id of this run's MLflow run, which is created if there is none yet."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
    experiment = client.get_experiment_by_name(name)
    experiment_id = client.create_experiment(name) if experiment is None else experiment.experiment_id
    known = client.search_runs([experiment_id], f"tags.`{_RUN_TAG}` = '{run.run_id}'", max_results=1)
    if known:
        client.update_run(known[0].info.run_id, status="RUNNING")
        return known[0].info.run_id
    made = client.create_run(experiment_id, run_name=run.name, tags={_RUN_TAG: run.run_id})
    param: Any = import_module("mlflow.entities").Param
    params: list[Any] = [
        param(_NOT_IN_NAMES.sub("_", key), str(value)[:_LONGEST_PARAM]) for key, value in run.settings.items()
    ]
    for part in _parts(params, _PARAMS_AT_ONCE):
        client.log_batch(made.info.run_id, params=part)
    return made.info.run_id


def _parts(entries: list[Any], size: int) -> Iterator[list[Any]]:
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
