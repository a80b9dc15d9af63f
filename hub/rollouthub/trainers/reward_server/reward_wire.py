"""The request and reply bodies of a reward server."""

import math
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from rollouthub.errors import ConfigError
from rollouthub.export.task_reference import TaskReference
from rollouthub.values import Frozen

MOST_ANSWERS = 4096
"""Most answers in one request."""
MOST_IMAGES = 256
"""Most pictures in one request."""


def _reference(given: object) -> object:
    """Accept a task as text, as data set columns hold it; an object is passed on unchanged."""
    try:
        return TaskReference.parse(given) if isinstance(given, str) else given
    except ConfigError as error:
        raise ValueError(str(error)) from error


class AnswerToScore(Frozen):
    """One answer to be scored."""

    task: Annotated[TaskReference, BeforeValidator(_reference)]
    answer: str | list[dict[str, Any]]
    """The answer's text, or the conversation as chat messages."""


class RewardRequest(Frozen):
    """The body of `POST /v1/rewards`."""

    answers: list[AnswerToScore] = Field(max_length=MOST_ANSWERS)


class RewardReply(Frozen):
    """The reply of `POST /v1/rewards`; every list is in the order of the request's answers."""

    rewards: list[float | None]
    """The reward of each answer; None if the answer is unscored, never 0."""
    components: list[dict[str, float]]
    passed: list[bool | None]
    problems: list[str | None]
    """Why each answer is unscored; None if the answer is scored."""


class OpenRlhfRequest(BaseModel):
    """The body of `POST /openrlhf`, as OpenRLHF's `--reward.remote_url` sends it; unknown fields are ignored."""

    model_config = ConfigDict(frozen=True)

    query: list[str] = Field(max_length=MOST_ANSWERS)
    """Prompt and response, special tokens included."""
    prompts: list[str] = Field(max_length=MOST_ANSWERS)
    labels: list[str] = Field(max_length=MOST_ANSWERS)
    """The tasks, as text of `TaskReference`."""


class OpenRlhfReply(Frozen):
    """The reply to an OpenRLHF reward request."""

    rewards: list[float]
    scores: list[float]
    extra_logs: dict[str, list[float]]


class ImageToScore(Frozen):
    """One picture: its bytes, or a path that the server reads. Exactly one of the two is given."""

    base64: str | None = None
    path: str | None = None
    """Path relative to the server's folder of pictures."""


class ImageRequest(Frozen):
    """The body of `POST /v1/images`; every list has one entry for each picture."""

    images: list[ImageToScore] = Field(max_length=MOST_IMAGES)
    prompts: list[str] = Field(max_length=MOST_IMAGES)
    metadata: list[dict[str, JsonValue]] | None = Field(default=None, max_length=MOST_IMAGES)


class ImageReply(Frozen):
    """The reply of `POST /v1/images`; every list is in the order of the pictures."""

    rewards: list[float | None]
    """The reward of each picture; None if the picture is unscored, never 0."""
    components: dict[str, list[float | None]]
    """The scorer's numbers for each picture, by name."""
    problems: list[str | None]
    """Why each picture is unscored; None if the picture is scored."""


def finite_or_none(value: object) -> float | None:
    """The value as a finite float; None if it is not a finite number."""
    if isinstance(value, bool) or value is None:
        return None if value is None else float(value)
    try:
        number = float(value)  # pyright: ignore[reportArgumentType]  # numbers of numpy and torch are as good
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
