"""W&B and MLflow, as they are installed, take what a run gives: offline, without an account."""

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from rollouthub.telemetry.trackers.tracker import Point, TrackedRun, find_tracker

pytestmark = pytest.mark.live
POINTS = [Point(step, 1700000000.0 + step, {"reward/a": step / 100, "seconds/model/p95": 0.5}) for step in (10, 20)]


def needs(package: str) -> None:
    """Skip aloud where it is not installed."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")


def run(folder: Path) -> TrackedRun:
    """A run with settings."""
    (folder / "run").mkdir(exist_ok=True)
    return TrackedRun("run-1", folder / "run", {"model": "mock/solver", "repeats": 2.0, "served": False}, 0)


def test_mlflow_keeps_points_and_settings_in_files_and_a_resume_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for point in POINTS:
        with find_tracker("mlflow")()(run(tmp_path)) as tracker:
            tracker.write([point])
            tracker.end("finished", {})
    tracking: Any = importlib.import_module("mlflow.tracking")
    client = tracking.MlflowClient(tracking_uri=(tmp_path / "mlruns").as_uri())
    (experiment,) = (found for found in client.search_experiments() if found.name == "rollouthub")
    (made,) = client.search_runs([experiment.experiment_id])
    assert (made.info.run_name, made.info.status) == ("run", "FINISHED")
    assert made.data.params == {"model": "mock/solver", "repeats": "2.0", "served": "False"}
    history = client.get_metric_history(made.info.run_id, "reward/a")
    assert [(metric.step, metric.value) for metric in history] == [(10, 0.1), (20, 0.2)]


def test_wandb_writes_offline_where_there_is_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("wandb")
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with find_tracker("wandb")()(run(tmp_path)) as tracker:
        tracker.write(POINTS)
        tracker.end("finished", {"run/mean_reward": 0.5})
    (log,) = (tmp_path / "run" / "wandb").glob("offline-run-*/*.wandb")
    assert b"reward/a" in log.read_bytes()
