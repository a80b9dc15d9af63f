"""The Weights & Biases tracker (extra `wandb`). Without a key it works offline and writes to `RUN/wandb/`."""

import logging
import os
import re
from collections.abc import Generator, Mapping, Sequence
from configparser import ConfigParser, Error
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from rollouthub.errors import ConfigError
from rollouthub.telemetry.trackers.tracker import Ending, Point, TrackedRun, needs
from rollouthub.text import plain_name

logger = logging.getLogger(__name__)

PROJECT = "rollouthub"
"""The project's name if `WANDB_PROJECT` is not set."""
STEP = "rollouts"
_HARMLESS = frozenset({"entity", "project", "organization", "disabled"})
"""Settings that a W&B settings file in the working folder may have; others could redirect the key or run code."""


class WeightsAndBiases:
    """Logs to one W&B run; a resumed run continues it."""

    def __init__(self, run: Any) -> None:
        self._run = run
        self.ending: Ending = "failed"

    def write(self, points: Sequence[Point]) -> None:
        """Log the points with the number of rollouts as their step, because W&B's own steps restart with a
        resumption.
        """
        for point in points:
            self._run.log({STEP: point.step, **point.values})

    def end(self, ending: Ending, figures: Mapping[str, float]) -> None:
        """Store the last figures as the run's summary."""
        self._run.summary.update(dict(figures))
        self.ending = ending


@needs("wandb")
@contextmanager
def track(run: TrackedRun) -> Generator[WeightsAndBiases]:
    """Log a run to W&B, within the context.

    Raises:
        ConfigError: W&B settings in the working folder could redirect the user's key.
    """
    _check_folder()
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


def _check_folder() -> None:
    """Refuse settings files in the working folder, which W&B reads by itself, unless all their settings are
    harmless.
    """
    for path in (Path("wandb", "settings"), Path(".wandb", "settings")):
        if not path.exists():
            continue
        settings = ConfigParser(interpolation=None)
        try:
            settings.read_string(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, Error):
            raise ConfigError(f"{path} cannot be read as settings of W&B; remove it") from None
        named = {*settings.defaults(), *(key for section in settings.sections() for key in settings[section])}
        if odd := sorted(named - _HARMLESS):
            raise ConfigError(
                f"{path} sets {plain_name(odd[0])!r}, and settings of a folder could send your key elsewhere; "
                "remove it, and say the same in the environment (WANDB_BASE_URL …)"
            )


def _has_key(library: Any) -> bool:
    """Whether W&B can log in without asking the user at the terminal."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return bool(library.Api(timeout=1).api_key)
    except Exception:  # it has no key, and says so in many ways
        return False
