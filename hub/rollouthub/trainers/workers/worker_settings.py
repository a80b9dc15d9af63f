"""An adapter's settings, from a file, because trainers that call the hub by name pass no settings."""

import os
import tomllib
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from pydantic import Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from rollouthub.engine.run_request import RunRequest, build_request
from rollouthub.errors import ConfigError, UnknownNameError
from rollouthub.generation import Model
from rollouthub.models.tokens import HfChatFormat, TokenEngine, TokenModel
from rollouthub.trainers.pictures.picture_chat_format import PictureChatFormat
from rollouthub.trainers.pictures.prompt_pictures import PromptPictures
from rollouthub.trainers.stream.open_worker import RolloutWorker, rollout_worker
from rollouthub.values import Frozen

VARIABLE = "ROLLOUTHUB_TRAINING"
"""The environment variable that names the settings file."""
TABLE = "training"
ONE_BY_ONE = (
    "this trainer asks for its samples one by one; take stream_rollouts(), or one of the systems that docs/trainers.md "
    "says take verdicts on groups"
)
"""Why adapters refuse environments that score groups, unless they say otherwise."""


class TrainingTable(Frozen):
    """The table `[training]`: settings of the adapter, beside those of the run."""

    directory: str = "runs"
    """The directory in which each training process creates its run directory."""
    tool_parser: str = "hermes"
    """The format of the policy's tool calls, see `HfChatFormat`."""
    template_kwargs: dict[str, JsonValue] = {}
    """Arguments for the chat template, such as `enable_thinking = false`."""
    splits_thinking: bool = False
    """Whether text before `</think>` becomes the message's reasoning."""
    max_context: int | None = Field(default=None, ge=1)
    """Most tokens of prompt and answer together; None takes the trainer's limit."""
    suspect: bool = False
    """Whether to train also on rollouts whose scores their verifier calls suspect."""
    seat: str | None = None
    """The seat that is trained, for trainers that take the rows of one seat; None if the policy plays one seat."""
    replays: int = Field(default=2, ge=0)
    """Further samples that may replace one that must not be trained on, for trainers that cannot represent it."""
    max_dropped: int = Field(default=10, ge=0)
    """Batches of groups that may be dropped while one batch is filled."""


class TrainingSettings(Frozen):
    """A run's settings, and the adapter's."""

    request: RunRequest
    training: TrainingTable = TrainingTable()

    def chat_format(self, tokenizer: Any, pictures: PromptPictures | None = None) -> HfChatFormat:
        """The chat format over the trainer's own tokenizer; `pictures` prepares pictures for a vision-language policy.

        Raises:
            ConfigError: no parser of tool calls has that name.
        """
        table = self.training
        form = HfChatFormat if pictures is None else partial(PictureChatFormat, pictures)
        return form(
            tokenizer,
            tool_parser=table.tool_parser,
            template_kwargs=table.template_kwargs,
            splits_thinking=table.splits_thinking,
        )

    def token_model(
        self,
        name: str,
        engine: TokenEngine,
        tokenizer: Any,
        longest: int | None = None,
        pictures: PromptPictures | None = None,
    ) -> TokenModel:
        """The policy as a model; `longest` is the trainer's context limit in tokens, used if the settings give none.

        `pictures` prepares pictures for a vision-language policy.

        Raises:
            ConfigError: as `chat_format`.
        """
        context = self.training.max_context or longest
        return TokenModel(name, engine, self.chat_format(tokenizer, pictures), max_context=context)

    def worker(
        self,
        system: str,
        model: Model | None = None,
        *,
        policy_version: int = 0,
        no_groups: str | None = ONE_BY_ONE,
        takes_seat: bool = True,
    ) -> AbstractAsyncContextManager[RolloutWorker]:
        """An unopened worker for these settings, in a run directory of its own; `no_groups` is as for `rollout_worker`,
        `takes_seat` tells whether the adapter can train one seat alone.

        Raises:
            ConfigError: one seat is to be trained, and the adapter cannot do that.
        Raises (on entry):
            UsageError: as `rollout_worker`.
        """
        if self.training.seat is not None and not takes_seat:
            raise ConfigError(
                f"[training] seat = {self.training.seat!r}: {system} trains every seat that the policy plays, and not "
                "one of them; leave it out, and give the other seats models of their own"
            )
        return rollout_worker(
            self.request,
            directory=self.run_directory(system),
            model=model,
            policy_version=policy_version,
            suspect=self.training.suspect,
            no_groups=no_groups,
        )

    def run_directory(self, system: str) -> Path:
        """A new directory for this process: its store is not shared, and no later process finds its samples already
        played.
        """
        now = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
        return Path(self.training.directory) / f"{system}-{now}-{os.getpid()}-{uuid4().hex[:6]}"


def settings_of(values: Mapping[str, Any], origin: str) -> TrainingSettings:
    """Validate raw settings: those of a run, and a table `training`.

    Raises:
        ConfigError: a setting is invalid; names the key and where it comes from.
    """
    given = dict(values)
    table = given.pop(TABLE, {})
    request = build_request(given, origin)
    if not request.environments:
        raise ConfigError(f'{origin} names no environment; write: environments = ["arithmetic"]')
    try:
        return TrainingSettings(request=request, training=TrainingTable.model_validate(table))
    except ValidationError as error:
        problems = "; ".join(_problem_text(each) for each in error.errors(include_url=False))
        raise ConfigError(f"{origin}: [{TABLE}] does not hold: {problems}") from None


def _problem_text(problem: ErrorDetails) -> str:
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        return str(UnknownNameError("setting", key, TrainingTable.model_fields))
    return f"{key + ' = ' if key else ''}{problem['input']!r:.100}: {problem['msg']}"


def given_settings(given: Mapping[str, Any] | str | Path | None) -> TrainingSettings:
    """The settings that a trainer's user gave, as a mapping, or as a TOML file (see `read_settings`).

    Raises:
        ConfigError: as `settings_of` and `read_settings`.
    """
    return settings_of(given, "settings") if isinstance(given, Mapping) else read_settings(given)


def read_settings(path: str | Path | None = None) -> TrainingSettings:
    """The settings of a TOML file, by default the file that `ROLLOUTHUB_TRAINING` names.

    Raises:
        ConfigError: no file is named, it cannot be read, or a setting in it is invalid.
    """
    named = path or os.environ.get(VARIABLE)
    if not named:
        raise ConfigError(f"nothing says what to play; let {VARIABLE} name a TOML file of a run's settings")
    try:
        values = tomllib.loads(Path(named).read_text())
    except (OSError, ValueError) as error:
        raise ConfigError(f"the settings {str(named)!r} cannot be read: {error}") from error
    return settings_of(values, str(named))
