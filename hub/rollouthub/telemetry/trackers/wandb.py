"""The Weights & Biases tracker (extra `wandb`). Without a key it writes offline, into `RUN/wandb/`."""

import logging
import os
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from rollouthub.telemetry.trackers.tracker import Ending, Point, TrackedRun

logger = logging.getLogger(__name__)

PROJECT = "rollouthub"
"""Where `WANDB_PROJECT` names none."""
STEP = "rollouts"


class WeightsAndBiases:
    """Logs to one W&B run, which a resumed run goes on with."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self.ending: Ending = "failed"

    def write(self, points: Sequence[Point]) -> None:
        """Log the points by rollouts: W&B's own steps would begin anew with a resume."""
        for point in points:
            self._run.log({STEP: point.step, **point.values})

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """Keep the last figures as the run's summary."""
        self._run.summary.update(dict(figures))
        self.ending = ending


@contextmanager
def track(run: TrackedRun) -> Generator[WeightsAndBiases]:
    """Draw a run."""
    library: Any = import_module("wandb")  # an extra
    mode = os.environ.get("WANDB_MODE")
    if mode is None and not _has_key(library):
        mode = "offline"
        logger.warning("no key of W&B is known: its run is written to %s/wandb; upload it: wandb sync", run.directory)
    session = library.init(
        project=os.environ.get("WANDB_PROJECT") or PROJECT,
        name=run.name,
        id=re.sub(r"[^A-Za-z0-9_-]", "-", run.run_id),
        resume="allow",
        dir=str(run.directory),
        config=dict(run.settings),
        mode=mode,
        # The run's figures, and nothing of the machine it ran on or the code beside it.
        settings=library.Settings(
            console="off", silent=True, save_code=False, disable_git=True, x_disable_stats=True, x_disable_meta=True
        ),
    )
    session.define_metric("*", step_metric=STEP)
    tracker = WeightsAndBiases(session)
    try:
        yield tracker
    finally:
        session.finish(exit_code=0 if tracker.ending == "finished" else 1)


def _has_key(library: Any) -> bool:
    """Whether W&B could log in without asking the person at the terminal."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return bool(library.Api(timeout=1).api_key)
    except Exception:  # it has no key, and says so in many ways
        return False
