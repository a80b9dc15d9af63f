"""The contract of trackers: whatever the entry points name, and one that a stranger wrote."""

import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.plugins.entry_points import TRACKERS
from rollouthub.telemetry.trackers.tracker import (
    Ending,
    Point,
    TrackedRun,
    Tracker,
    find_tracker,
    tracker_packages,
)
from tests.plugins.stranger import names_of, register

STRANGER = "acme/pages"


class Pages:
    """A page a point, from the protocol alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, points: Sequence[Point]) -> None:
        for point in points:
            (self._folder / f"{point.step}.json").write_text(json.dumps(dict(point.values)))

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        (self._folder / "end.json").write_text(json.dumps({"ending": ending, **figures}))


@contextmanager
def pages(run: TrackedRun) -> Generator[Tracker]:
    folder = run.directory / "pages"
    folder.mkdir(exist_ok=True)
    yield Pages(folder)


@pytest.fixture(params=names_of(TRACKERS, STRANGER))
def name(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of each tracker."""
    if request.param == STRANGER:
        register(tmp_path / "site", monkeypatch, TRACKERS, STRANGER, f"{__name__}:pages")
    return request.param


def written(folder: Path) -> int:
    """Bytes below a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_it_draws_a_run_and_its_resumption_within_the_run_s_folder(name: str, tmp_path: Path) -> None:
    if not tracker_packages().get(name, True):
        with pytest.raises(ConfigError, match=f"'{name}' needs the package .* not installed: pip install"):
            find_tracker(name)
        return
    if name in ("mlflow", "wandb"):
        return  # `tests/telemetry/trackers/test_trackers_live.py` has those that bring a library of their own
    directory = tmp_path / "runs" / "sums"
    directory.mkdir(parents=True)
    for step in (10, 20):
        run = TrackedRun("run-1", directory, {"model": "mock/solver", "served": False, "repeats": 2.0}, step - 10)
        before = written(directory)
        with find_tracker(name)()(run) as tracker:
            tracker.write([])
            tracker.write([Point(step, 1700000000.0 + step, {"reward/sums": 0.5, "seconds/model/p95": 0.1})])
            tracker.end("finished", {"run/mean_reward": 0.5})
        assert written(directory) > before
    assert [path.name for path in directory.parent.iterdir()] == ["sums"]


def test_a_wrong_name_is_met_with_the_right_one(name: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{name}'"):
        find_tracker(f"{name}s")
