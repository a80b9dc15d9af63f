"""What a trainer logged of its steps, followed while the run plays."""

import os
from collections.abc import Mapping
from pathlib import Path

from rollouthub.store.trainer_steps import TRAINER_STEPS, LoggedStep, read_steps
from rollouthub.telemetry.trackers.trainer_logs import canonical_figure


class FollowedTrainer:
    """The steps in a run's `trainer.jsonl`, read again when the file has changed. Blocking."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._stamp: tuple[int, int] | None = None
        self.steps: list[LoggedStep] = []

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
        return True

    @property
    def latest(self) -> Mapping[str, float | None]:
        """The figures of the latest step, by name; empty without any."""
        return self.steps[-1].metrics if self.steps else {}

    @property
    def losses(self) -> list[tuple[float, float]]:
        """When each loss was logged, in Unix seconds, and the loss, in order of time."""
        found = [
            (step.time, value)
            for step in self.steps
            for name, value in step.metrics.items()
            if value is not None and canonical_figure(name) == "loss"
        ]
        return sorted(found)
