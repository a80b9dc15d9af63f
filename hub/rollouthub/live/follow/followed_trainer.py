"""What a trainer logged of its steps, followed while the run plays."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from rollouthub.store.trainer_steps import TRAINER_STEPS, LoggedStep, read_steps
from rollouthub.telemetry.trackers.trainer_logs import canonical_figure


class FollowedTrainer:
    """The steps in a run's `trainer.jsonl`, read again when the file has changed. Blocking."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stamp: tuple[int, int] | None = None
        self.steps: list[LoggedStep] = []
        self.losses: list[tuple[float, float]] = []
        """When each loss was logged, in Unix seconds, and the loss, in order of time."""

    def refresh(self) -> bool:
        """Read the file if it has changed; return whether it had."""
        try:
            found = os.lstat(self._directory / TRAINER_STEPS)
        except OSError:
            stamp = None
        else:
            stamp = found.st_mtime_ns, found.st_size
        if stamp == self._stamp:
            return False
        self._stamp = stamp
        self.steps = [] if stamp is None else read_steps(self._directory)
        self.losses = sorted(_losses(self.steps))
        return True


def _losses(steps: Sequence[LoggedStep]) -> Iterator[tuple[float, float]]:
    """When each loss was logged, and the loss."""
    is_loss: dict[str, bool] = {}
    for step in steps:
        for name, value in step.metrics.items():
            if name not in is_loss:
                is_loss[name] = canonical_figure(name) == "loss"
            if value is not None and is_loss[name]:
                yield step.time, value
