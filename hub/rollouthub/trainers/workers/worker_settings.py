"""What an adapter plays, from a file: trainers that call us by name have no place for settings of ours."""

import os
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.frozen import Frozen
from rollouthub.models.tokens import HfChatFormat

VARIABLE = "ROLLOUTHUB_TRAINING"
"""The environment variable that names the file."""
TABLE = "training"


class TrainingTable(Frozen):
    """The table `[training]`: what concerns the adapter and not the run."""

    directory: str = "runs"
    """Where each training process makes a run directory of its own."""
    tool_parser: str = "hermes"
    """How the policy writes tool calls, see `HfChatFormat`."""
    template_kwargs: dict[str, JsonValue] = {}
    """For the chat template, such as `enable_thinking = false`."""
    splits_thinking: bool = False
    """Whether what stands before `</think>` is the message's reasoning."""
    max_context: int | None = Field(default=None, ge=1)
    """Tokens that prompt and answer may have; None is what the trainer says."""
    suspect: bool = False
    """Whether rollouts are learnt from whose scores their verifier calls suspect."""
    replays: int = Field(default=2, ge=0)
    """Further samples in place of one that must not be learnt from, for trainers that have no word for such."""
    max_dropped: int = Field(default=10, ge=0)
    """Batches that may be dropped while one is filled."""


class TrainingSettings(Frozen):
    """A run's settings, and the adapter's."""

    request: RunRequest
    training: TrainingTable = TrainingTable()

    def chat_format(self, tokenizer: Any) -> HfChatFormat:
        """How the policy's conversations are written, by the trainer's own tokenizer.

        Raises:
            ConfigError: no parser of tool calls has that name.
        """
        table = self.training
        return HfChatFormat(
            tokenizer,
            tool_parser=table.tool_parser,
            template_kwargs=table.template_kwargs,
            splits_thinking=table.splits_thinking,
        )

    def run_directory(self, system: str) -> Path:
        """A directory for this process alone: no two share a store, and no later one finds its samples played."""
        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        return Path(self.training.directory) / f"{system}-{now}-{os.getpid()}-{uuid4().hex[:6]}"


def settings_of(values: Mapping[str, Any], origin: str) -> TrainingSettings:
    """Check raw settings: those of a run, and a table `training`.

    Raises:
        ConfigError: names the key and its origin.
    """
    given = dict(values)
    table = given.pop(TABLE, {})
    request = build_request(given, origin)
    if not request.environments:
        raise ConfigError(f'{origin} names no environment; write: environments = ["arithmetic"]')
    try:
        return TrainingSettings(request=request, training=TrainingTable.model_validate(table))
    except ValidationError as error:
        told = "; ".join(_told(each) for each in error.errors(include_url=False))
        raise ConfigError(f"{origin}: [{TABLE}] does not hold: {told}") from None


def _told(problem: ErrorDetails) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return str(UnknownNameError("setting", key, TrainingTable.model_fields))
    return f"{key + ' = ' if key else ''}{problem['input']!r:.100}: {problem['msg']}"


def given_settings(given: Mapping[str, Any] | str | Path | None) -> TrainingSettings:
    """The settings that a trainer's user gave: as a mapping, or as a TOML file (see `read_settings`).

    Raises:
        ConfigError: as both.
    """
    return settings_of(given, "settings") if isinstance(given, Mapping) else read_settings(given)


def read_settings(path: str | Path | None = None) -> TrainingSettings:
    """The settings of a TOML file, by default the one that `ROLLOUTHUB_TRAINING` names.

    Raises:
        ConfigError: there is none, it cannot be read, or a setting in it does not hold.
    """
    named = path or os.environ.get(VARIABLE)
    if not named:
        raise ConfigError(f"nothing says what to play; let {VARIABLE} name a TOML file of a run's settings")
    try:
        values = tomllib.loads(Path(named).read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"the settings {str(named)!r} cannot be read: {error}") from error
    return settings_of(values, str(named))
