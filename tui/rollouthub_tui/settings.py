"""Settings that are stored between sessions: theme, saved filters, preview, folding and the like."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from rollouthub.store.atomic_files import replace_file

logger = logging.getLogger(__name__)


class Settings(BaseModel):
    """Stored settings. Unknown keys, of another version, are ignored; a damaged file gives the defaults."""

    model_config = ConfigDict(extra="ignore", validate_assignment=True)

    theme: str = "rollouthub-dark"
    """Name of a theme, Textual's or the app's own."""
    preview: bool = True
    """Whether the rollout at the cursor is shown beside the list, where there is room."""
    filters: dict[str, str] = {}
    """Saved filters of rollouts: name → expression."""
    is_folded: bool = True
    """Whether long tool results are folded at first."""
    wraps: bool = True
    """Whether long lines are wrapped."""
    text: bool = False
    """Whether `hub watch` starts in text mode on a terminal."""


def state_folder(environ: Mapping[str, str]) -> Path:
    """The folder of `hub watch`'s own files: `$XDG_STATE_HOME/rollouthub`."""
    home = environ.get("XDG_STATE_HOME", "")
    own = Path(home) if home.startswith("/") else Path(environ.get("HOME", "~")).expanduser() / ".local/state"
    return own / "rollouthub"


def settings_path(environ: Mapping[str, str]) -> Path:
    """The file of the settings."""
    return state_folder(environ) / "watch.json"


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Read the stored settings; the defaults if there are none, or they cannot be read."""
    try:
        return Settings.model_validate(json.loads(settings_path(environ).read_text()))
    except FileNotFoundError:
        return Settings()
    except (OSError, ValueError, ValidationError, RecursionError) as error:
        logger.warning("what `hub watch` remembered could not be read (%s); it begins anew", error)
        return Settings()


def save_settings(settings: Settings, environ: Mapping[str, str], *, since: Settings | None = None) -> None:
    """Store the settings; does nothing if the file cannot be written.

    `since` are the settings as loaded: only those changed since then overwrite what other sessions stored meanwhile.
    """
    if since is not None:
        changed = {name: value for name, value in settings if value != getattr(since, name)}
        if not changed:
            return
        stored = load_settings(environ)
        if "filters" in changed:
            changed["filters"] = _merged(stored.filters, settings.filters, since.filters)
        settings = stored.model_copy(update=changed)
    path = settings_path(environ)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, settings.model_dump_json(indent=2).encode() + b"\n", is_private=True)
    except OSError as error:
        logger.warning("what `hub watch` should remember could not be written: %s", error)


def _merged(stored: Mapping[str, str], mine: Mapping[str, str], since: Mapping[str, str]) -> dict[str, str]:
    """The stored filters with those that were saved or deleted here since they were loaded."""
    kept = {name: text for name, text in stored.items() if name in mine or name not in since}
    return {**kept, **{name: text for name, text in mine.items() if since.get(name) != text}}
