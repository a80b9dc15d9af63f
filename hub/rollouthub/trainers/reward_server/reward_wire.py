"""What is asked of a reward server, and what it answers."""

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from rollouthub.errors import ConfigError
from rollouthub.export.task_reference import TaskReference
from rollouthub.frozen import Frozen

MOST_ANSWERS = 4096
"""In one request."""
MOST_IMAGES = 256
"""In one request."""


def _reference(given: object) -> object:
    """A task as text of a data set's column, or as the object that it writes."""
    try:
        return TaskReference.parse(given) if isinstance(given, str) else given
    except ConfigError as error:
        raise ValueError(str(error)) from error


class AnswerToScore(Frozen):
    """One answer."""

    task: Annotated[TaskReference, BeforeValidator(_reference)]
    answer: str | list[dict[str, Any]]
    """What was said, or the conversation as chat messages."""


class RewardRequest(Frozen):
    """The body of `POST /v1/rewards`."""

    answers: list[AnswerToScore] = Field(max_length=MOST_ANSWERS)


class RewardReply(Frozen):
    """Its answer; every list is in the order of what was asked."""

    rewards: list[float | None]
    """None is unscored, never 0."""
    components: list[dict[str, float]]
    passed: list[bool | None]
    problems: list[str | None]
    """Why an answer is unscored."""


class OpenRlhfRequest(BaseModel):
    """The body of `POST /openrlhf`, as OpenRLHF's `--reward.remote_url` sends it; what newer ones add is left alone."""

    model_config = ConfigDict(frozen=True)

    query: list[str] = Field(max_length=MOST_ANSWERS)
    """Prompt and response, special tokens included."""
    prompts: list[str] = Field(max_length=MOST_ANSWERS)
    labels: list[str] = Field(max_length=MOST_ANSWERS)
    """The tasks, as text of `TaskReference`."""


class OpenRlhfReply(Frozen):
    """Its answer."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class ImageToScore(Frozen):
    """One picture: its bytes, or where the server finds them."""

    base64: str | None = None
    path: str | None = None
    """Within the folder that the server was given."""


class ImageRequest(Frozen):
    """The body of `POST /v1/images`; every list has one entry for each picture."""

    images: list[ImageToScore] = Field(max_length=MOST_IMAGES)
    prompts: list[str] = Field(max_length=MOST_IMAGES)
    metadata: list[dict[str, JsonValue]] | None = Field(default=None, max_length=MOST_IMAGES)


class ImageReply(Frozen):
    """Its answer; every list is in the order of the pictures."""

    rewards: list[float | None]
    """None is unscored, never 0."""
    components: dict[str, list[float | None]]
    """What the scorer said of each picture, by name."""
    problems: list[str | None]
    """Why a picture is unscored."""


def finite_or_none(value: object) -> float | None:
    """A number as it can be a reward; None for everything else."""
    if isinstance(value, bool) or value is None:
        return None if value is None else float(value)
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]  # numbers of numpy and torch are as good
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
