"""The TensorBoard tracker: event files in `RUN/tensorboard/`, with the settings for its HParams page."""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from rollouthub.telemetry.trackers.event_file import EventFile, scalars
from rollouthub.telemetry.trackers.protobuf_wire import block, double, number
from rollouthub.telemetry.trackers.tracker import Ending, Point, Setting, TrackedRun

FOLDER = "tensorboard"
_METRICS = ("run/mean_reward", "run/pass_rate")
_STRING, _BOOL, _FLOAT = 1, 2, 3
_SUCCESS, _FAILURE = 1, 2


class TensorBoard:
    """Writes one event file; a resumed run adds another file to the same folder and continues the steps."""

    def __init__(self, file: EventFile) -> None:
        self._file = file

    def write(self, points: Sequence[Point]) -> None:
        """Append the points, and make them visible to TensorBoard."""
        for point in points:
            self._file.add(scalars(point.values, point.step, point.time))
        self._file.flush()

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """Write how the run ended, for the HParams page."""
        status = _SUCCESS if ending == "finished" else _FAILURE
        self._file.add(_hparams("_hparams_/session_end_info", block(4, number(1, status) + double(2, time.time()))))


@contextmanager
def track(run: TrackedRun) -> Generator[TensorBoard]:
    """Write a run's curves to an event file, within the context."""
    file = EventFile(run.directory / FOLDER)
    try:
        for event in _settings(run.settings):
            file.add(event)
        yield TensorBoard(file)
    finally:
        file.close()


def _settings(settings: Mapping[str, Setting]) -> list[bytes]:
    """The events of the HParams plug-in: which settings and metrics there are, and this run's settings."""
    infos = b"".join(block(4, block(1, name) + number(4, _kind(value))) for name, value in settings.items())
    metrics = b"".join(block(5, block(1, block(2, tag))) for tag in _METRICS)
    values = b"".join(block(1, block(1, name) + block(2, _value(value))) for name, value in settings.items())
    return [
        _hparams("_hparams_/experiment", block(2, double(3, time.time()) + infos + metrics)),
        _hparams("_hparams_/session_start_info", block(3, values + double(5, time.time()))),
    ]


def _hparams(tag: str, content: bytes) -> bytes:
    plugin = block(1, "hparams") + block(2, content)
    return double(1, time.time()) + block(5, block(1, block(1, tag) + block(9, block(1, plugin))))


def _kind(value: Setting) -> int:
    return _BOOL if isinstance(value, bool) else _STRING if isinstance(value, str) else _FLOAT


def _value(value: Setting) -> bytes:
    """A setting encoded as `google.protobuf.Value`."""
    if isinstance(value, bool):
        return number(4, int(value))
    return block(3, value) if isinstance(value, str) else double(2, value)
