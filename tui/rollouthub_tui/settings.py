"""What the screens remember from one time to the next: theme, orders, what was hidden."""

import json
import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

logger = logging.getLogger(__name__)


class Settings(BaseModel):
    """Remembered choices. Unknown keys, of another version, are left out; a damaged file is the defaults."""

    model_config = ConfigDict(extra="ignore", validate_assignment=True)

    theme: str = "rollouthub-dark"
    """A theme of Textual's, or of ours."""
    sort: str = "seq"
    """The rollouts' column."""
    is_descending: bool = True
    """Whether the rollouts' newest, largest … come first."""
    grouping: Literal["rollouts", "tasks"] = "rollouts"
    """What the rollouts' table shows a line for."""
    is_folded: bool = True
    """Whether long tool results begin folded."""
    wraps: bool = True
    """Whether long lines are wrapped."""
    text: bool = False
    """Whether `hub watch` begins line by line, on a terminal."""


def state_folder(environ: Mapping[str, str]) -> Path:
    """Where `hub watch` keeps what is its own: `$XDG_STATE_HOME/rollouthub`."""
    home = environ.get("XDG_STATE_HOME", "")
    own = Path(home) if home.startswith("/") else Path(environ.get("HOME", "~")).expanduser() / ".local/state"
    return own / "rollouthub"


def settings_path(environ: Mapping[str, str]) -> Path:
    """The file they are kept in."""
    return state_folder(environ) / "watch.json"


def load_settings(environ: Mapping[str, str]) -> Settings:
    """What is remembered."""
    try:
        return Settings.model_validate(json.loads(settings_path(environ).read_text()))
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, ValidationError, RecursionError) as error:
        logger.warning("what `hub watch` remembered could not be read (%s); it begins anew", error)
        return Settings()


def save_settings(settings: Settings, environ: Mapping[str, str], *, since: Settings | None = None) -> None:
    """Remember; where that cannot be written, nothing is.

    `since` is how they were when they were loaded: only what was changed is written over what others left meanwhile.
    """
    if since is not None:
        changed = {name: value for name, value in settings if value != getattr(since, name)}
        if not changed:
            return
        settings = load_settings(environ).model_copy(update=changed)
    path = settings_path(environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        number, beside = tempfile.mkstemp(prefix=".watch-", dir=path.parent)
        with os.fdopen(number, "w") as file:
            file.write(settings.model_dump_json(indent=2) + "\n")
        Path(beside).replace(path)
    except OSError as error:
        logger.warning("what `hub watch` should remember could not be written: %s", error)
