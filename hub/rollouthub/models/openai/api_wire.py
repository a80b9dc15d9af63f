"""The interface of the two APIs of the openai lane: what a request's body is, and how its answer is read."""

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import JsonValue

from rollouthub.errors import ConfigError
from rollouthub.generation import ModelReply, ModelRequest, Sampling
from rollouthub.messages import Delta
from rollouthub.models.config import Api
from rollouthub.models.openai.optional_fields import OptionalField

SCHEMA_NAME = "answer"
"""The name under which an answer's schema is sent."""


class AnswerAssembly(Protocol):
    """Assembles a streamed answer."""

    def add(self, data: bytes) -> Delta | None:
        """Add an event's data; returns the piece to show, or None.

        Raises:
            BadAnswer: the data is no event of the API, or the server aborted the answer.
        """
        ...

    @property
    def is_over(self) -> bool:
        """Whether the answer is complete."""
        ...

    def reply(self, version_header: str | None, retries: int) -> ModelReply:
        """The whole answer.

        Raises:
            BadAnswer: it is not valid.
        """
        ...


class ApiWire(Protocol):
    """One API: writes requests and reads answers."""

    api: Api
    path: str
    """The path below the base URL."""

    def body(self, request: ModelRequest, without: frozenset[OptionalField] = frozenset()) -> dict[str, Any]:
        """A request's body, without what the endpoint refused before.

        Raises:
            ModelError: the API cannot carry the request.
        """
        ...

    def check_sampling(self, sampling: Sampling) -> None:
        """Check sampling settings before any request.

        Raises:
            ConfigError: the API has no such setting, or a reserved field is set.
        """
        ...

    def parse(self, body: bytes, request: ModelRequest, version_header: str | None, retries: int) -> ModelReply:
        """The reply in an answer's body.

        Raises:
            BadAnswer: it is not valid.
        """
        ...

    def assembly(self, request: ModelRequest) -> AnswerAssembly:
        """An assembly for a streamed answer to the request."""
        ...


def schema_format(schema: Mapping[str, JsonValue]) -> dict[str, Any]:
    """The fields in which both APIs take an answer's schema."""
    return {"name": SCHEMA_NAME, "schema": dict(schema), "strict": True}


def refuse_settings(names: list[str], advice: str) -> ConfigError:
    """The error for sampling settings that an API does not have."""
    return ConfigError(f"the Responses API takes no {' and no '.join(names)}; {advice}")
