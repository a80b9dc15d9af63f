"""The interface of a dialect of the model API: parses its requests, and writes answers in its format."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec
from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.generation import ModelReply
from rollouthub.messages import Delta, Message

ProblemKind = Literal["invalid", "unauthorized", "closed", "limit", "context", "too_large", "busy", "failed"]
"""Why a call is not answered. `invalid`: the request is malformed. `closed`: the episode is over. `limit`: a limit
of the episode is reached. `context`: the conversation is too long for the model. `failed`: the model could not be
reached; a retry may help.
"""


@dataclass(frozen=True, slots=True)
class CallProblem:
    """Why a call of the model API is not answered; every dialect has its own format for it."""

    kind: ProblemKind
    status: int
    """The HTTP status. Clients retry after 408, 409, 429 and 5xx, so final problems have none of these."""
    message: str
    code: str | None = None
    """A machine-readable code: `turn_limit`, `context_length_exceeded` …"""
    retry_after_seconds: float | None = None


class CallRefused(Exception):
    """A call of the model API is refused, with a `CallProblem`."""

    def __init__(self, problem: CallProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A request for an answer, independent of the dialect."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    model: str
    """The model's name as the agent sent it; answers repeat it, whichever model the run has."""
    is_stream: bool = False
    max_tokens: int | None = None
    """Most tokens of this answer; it may lower the run's limit, but not raise it."""
    constraints: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """Fields that constrain the answer beside sampling, by their chat-completions names: `stop`, `tool_choice`,
    `parallel_tool_calls`, `response_format`.
    """
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Bytes of the media in the messages, by digest."""
    own: Any = None
    """Data of the dialect, for writing the answer."""
    scope: bytes = field(default=b"", repr=False)
    """Identifies the conversation's owner: what is remembered for one scope is not visible in others."""


class Events(Protocol):
    """Writes one answer as a stream of server-sent events; each method returns the bytes to send, in order."""

    def begin(self) -> bytes: ...
    def delta(self, delta: Delta) -> bytes: ...
    def end(self, reply: ModelReply) -> bytes:
        """The rest of the answer; the whole answer if no piece came before, because not every model streams."""
        ...

    def fail(self, problem: CallProblem) -> bytes:
        """The error event, since the HTTP status has been sent already."""
        ...


class Dialect(Protocol):
    """One API of the model API. It holds no state of an episode, and is shared by all episodes."""

    def read(self, body: bytes, scope: bytes = b"") -> AnswerRequest:
        """Parse a request's body; `scope` identifies the conversation's owner. Large bodies are parsed in worker
        threads.

        Raises:
            ValueError: the body is invalid; the message is meant for the agent's author.
        """
        ...

    def whole(self, asked: AnswerRequest, reply: ModelReply, number: str) -> bytes:
        """The whole answer as one JSON body; `number` distinguishes answers."""
        ...

    def events(self, asked: AnswerRequest, number: str) -> Events:
        """A writer for an answer that is streamed."""
        ...

    def problem(self, problem: CallProblem) -> bytes:
        """The body of an error answer."""
        ...


def model_list(names: Iterable[str]) -> bytes:
    """The list of models, as `GET /v1/models` answers it."""
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "rollouthub"} for name in names]
    return msgspec.json.encode({"object": "list", "data": listed})
