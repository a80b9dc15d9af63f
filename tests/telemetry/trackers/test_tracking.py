"""A run is drawn while it plays, and no tracker slows or fails it."""

import json
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tensorboardX.proto import event_pb2, plugin_hparams_pb2  # pyright: ignore

from rollouthub import Rollout
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.telemetry.trackers import tracked_run as tracking
from rollouthub.telemetry.trackers.event_file import read_events, read_scalars
from rollouthub.telemetry.trackers.flat_settings import shown_settings
from rollouthub.telemetry.trackers.tracked_run import Tracking, tracked
from rollouthub.telemetry.trackers.tracker import Ending, Point, TrackedRun, find_tracker
from tests.store.records import names_in, record, write


class Nobody:
    """An observer that takes no notice."""

    def started(self, run_id: str, planned: int, done: int, bad_rows: int) -> None:
        """See `Observer`."""

    def committed(self, rollouts: Sequence[Rollout]) -> None:
        """See `Observer`."""

    def stopped(self, reason: str) -> None:
        """See `Observer`."""


class Notes(list[str]):
    """What was said."""

    def __call__(self, text: str) -> None:
        self.append(text)


async def draw(folder: Path, records: Sequence[Rollout], *, track: Sequence[str], resumed: bool = False) -> list[str]:
    """Draw a run of these records; what was said."""
    notes = Notes()
    async with tracked(
        track, folder, Nobody(), is_resumed=resumed, note=notes, redact=lambda text: text.replace("hunter22", "***")
    ) as observer:
        observer.started("run", 40, 0, 0)
        observer.committed(records)
    return notes


@pytest.fixture
async def folder(tmp_path: Path) -> Path:
    """A run of ten rollouts."""
    await write(tmp_path / "run", [record(f"g{number}-0") for number in range(10)])
    return tmp_path / "run"


def steps(folder: Path) -> list[int]:
    """Of every event file, in order."""
    files = sorted((folder / "tensorboard").iterdir())
    return [step for file in files for step in dict.fromkeys(step for step, *_ in read_scalars(file))]


async def test_tensorboard_gets_points_and_the_settings(folder: Path) -> None:
    assert await draw(folder, [record(f"g{number}-0") for number in range(25)], track=["tensorboard"]) == []
    assert steps(folder) == [10, 20, 25]
    (file,) = (folder / "tensorboard").iterdir()
    shown: dict[str, Any] = {}
    for raw in read_events(file):
        for value in event_pb2.Event.FromString(raw).summary.value:  # pyright: ignore
            if value.tag.startswith("_hparams_/"):  # pyright: ignore
                content = value.metadata.plugin_data.content  # pyright: ignore
                shown[value.tag[10:]] = plugin_hparams_pb2.HParamsPluginData.FromString(content)  # pyright: ignore
    start = shown["session_start_info"].session_start_info.hparams
    assert (start["environments"].string_value, start["repeats"].number_value) == ("arithmetic", 2.0)
    assert [metric.name.tag for metric in shown["experiment"].experiment.metric_infos] == [
        "run/mean_reward",
        "run/pass_rate",
    ]
    assert shown["session_end_info"].session_end_info.status == 2  # not all that was planned was played


async def test_a_resumed_run_goes_on_in_the_same_folder_with_steps_that_continue(folder: Path) -> None:
    await draw(folder, [record(f"g{number}-0") for number in range(10)], track=["tensorboard"])
    await draw(folder, [record(f"h{number}-0") for number in range(12)], track=["tensorboard"], resumed=True)
    assert steps(folder) == [10, 20, 22]


class Broken:
    """A tracker that cannot draw."""

    def write(self, points: Sequence[Point]) -> None:
        """Fail."""
        raise OSError("the wall of hunter22 has no room")

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """Never come here."""
        raise AssertionError


class Slow:
    """A tracker that does not come back until it is let go."""

    def __init__(self) -> None:
        self.let_go, self.began = threading.Event(), threading.Event()

    def write(self, points: Sequence[Point]) -> None:
        """Hang."""
        self.began.set()
        assert self.let_go.wait(20)

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """See `Tracker`."""


def offered(monkeypatch: pytest.MonkeyPatch, tracker: Any) -> None:
    """Have `tracker` found by the name acme/wall."""

    @contextmanager
    def factory(run: TrackedRun) -> Generator[Any]:
        yield tracker

    def find(name: str) -> Any:
        return find_tracker(name) if name == "tensorboard" else lambda: factory

    monkeypatch.setattr(tracking, "find_tracker", find)


async def test_a_tracker_that_fails_is_named_once_and_costs_the_run_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offered(monkeypatch, Broken())
    records = [record(f"g{number}-0") for number in range(30)]
    notes = await draw(folder, records, track=["acme/wall", "tensorboard"])
    assert notes == ["the tracker 'acme/wall' failed and draws no more: OSError: the wall of *** has no room"]
    assert steps(folder) == [10, 20, 30]


async def test_a_tracker_that_hangs_is_left_behind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = Slow()
    offered(monkeypatch, slow)
    monkeypatch.setattr(tracking, "END_SECONDS", 0.05)
    notes = Notes()
    with anyio.fail_after(5):
        async with tracked(["acme/wall"], folder, Nobody(), is_resumed=False, note=notes, redact=str) as observer:
            observer.started("run", 40, 0, 0)
            for number in range(40):
                observer.committed([record(f"g{number}-0")])
    assert notes == ["the tracker acme/wall did not finish within 0.05 s and is left behind"]
    assert observer.is_stuck
    slow.let_go.set()


async def test_a_run_that_is_refused_draws_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such split"):
        async with tracked(["tensorboard"], tmp_path / "run", Nobody(), is_resumed=False, note=Notes(), redact=str):
            raise ConfigError("no such split")
    assert names_in(tmp_path) == []


async def test_an_observer_hears_everything_whoever_draws(folder: Path) -> None:
    heard: list[str] = []

    class Listener(Nobody):
        def committed(self, rollouts: Sequence[Rollout]) -> None:
            heard.extend(rollout.rollout_id for rollout in rollouts)

    observer = Tracking(folder, Listener(), Notes(), is_resumed=False)
    observer.started("run", 2, 0, 0)
    observer.committed([record("g1-0"), record("g2-0")])
    assert heard == ["g1-0", "g2-0"]


def test_settings_are_flat_and_hold_no_secret() -> None:
    resolved: dict[str, Any] = {
        "hub_version": "1",
        "request": {
            "environments": ["a", "b"],
            "set": {"a.api_key": "hunter22", "a.level": 3},
            "sampling": {"extra": {"authorization": "Bearer hunter22"}, "temperature": 0.5},
            "base_url": "http://user-hunter22/v1",
            "ray": {"runtime_env": {"env_vars": {"X": "hunter22"}}},
            "limit": None,
        },
    }
    shown = shown_settings(resolved, lambda text: text.replace("hunter22", "***"))
    assert shown == {
        "hub_version": "1",
        "environments": "a, b",
        "set.a.level": 3,
        "sampling.temperature": 0.5,
        "base_url": "http://user-***/v1",
    }
    assert "hunter22" not in json.dumps(shown)


def test_an_unknown_tracker_is_named_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'tensorboard'"):
        find_tracker("tensorbord")
