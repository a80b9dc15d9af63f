"""What a trainer logs of its steps, kept beside the rollouts that it learns from."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import SupportsFloat

import anyio
import anyio.to_thread

from rollouthub.store.trainer_steps import append_step, logged_step


class TrainerLog:
    """Appends steps to the run's `trainer.jsonl`, and knows the latest figures."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writing = anyio.Lock()
        self.latest: dict[str, float] = {}
        """The figures of the latest step, without those that were no finite numbers."""

    async def add(self, step: int, figures: Mapping[str, SupportsFloat]) -> None:
        """Log a step.

        Raises:
            ConfigError: the figures or the step are invalid.
            StoreError: the file cannot be written.
        """
        logged = logged_step(step, time.time(), figures)
        async with self._writing:
            await anyio.to_thread.run_sync(append_step, self._directory, logged)
            self.latest.clear()
            self.latest |= {name: value for name, value in logged.metrics.items() if value is not None}
