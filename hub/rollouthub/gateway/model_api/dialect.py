"""What a dialect of the model seam must do: read its requests as ours, and write our answers as its own."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec
from mcp_types import Tool
from pydantic import JsonValue

from rollouthub.messages import Delta, Message
from rollouthub.protocols import ModelReply

ProblemKind = Literal["invalid", "unauthorized", "closed", "limit", "context", "too_large", "busy", "failed"]
"""`invalid`: the request is none. `closed`: the episode is over. `limit`: one of the episode's is reached. `context`:
the conversation does not fit the model. `failed`: the model could not be reached; trying again may help."""


@dataclass(frozen=True, slots=True)
class CallProblem:
    """Why a call of the seam is not answered; every dialect says it in its own shape."""

    kind: ProblemKind
    status: int
    """As HTTP has it. Clients try again after 408, 409, 429 and 5xx, so what is final has none of these."""
    message: str
    code: str | None = None
    """A word for programs: `turn_limit`, `context_length_exceeded` …"""
    retry_after_seconds: float | None = None


class CallRefused(Exception):
    """A call of the seam that is not answered."""

    def __init__(self, problem: CallProblem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """A request for an answer, in our words."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    model: str
    """As the agent named it; answers repeat it, whichever model the run has."""
    is_stream: bool = False
    max_tokens: int | None = None
    """Of this answer; may lower the run's limit, never raise it."""
    constraints: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What shapes the answer and is no sampling, as the chat wire names it: `stop`, `tool_choice`,
    `parallel_tool_calls`, `response_format`."""
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Digest → bytes of the media the messages name."""
    own: Any = None
    """The dialect's own, for writing the answer."""
    scope: bytes = field(default=b"", repr=False)
    """Whose conversation it is: what is remembered of one is unknown in every other."""


class Events(Protocol):
    """Writes one answer as a stream of server-sent events; each method gives the bytes to send, in order."""

    def begin(self) -> bytes: ...
    def delta(self, delta: Delta) -> bytes: ...
    def end(self, reply: ModelReply) -> bytes:
        """The rest. Where no delta came before, the whole answer: not every model streams."""
        ...

    def fail(self, problem: CallProblem) -> bytes:
        """After the stream has begun there is no status to say it with."""
        ...


class Dialect(Protocol):
    """One API of the model seam. Stateless, shared by all episodes."""

    def read(self, body: bytes, scope: bytes = b"") -> AnswerRequest:
        """A request's body, in our words; `scope` says whose it is. Large ones are read in worker threads.

        Raises:
            ValueError: says what is wrong with it, in words for the agent's author.
        """
        ...

    def whole(self, asked: AnswerRequest, reply: ModelReply, number: str) -> bytes:
        """The whole answer as one JSON body; `number` tells answers apart."""
        ...

    def events(self, asked: AnswerRequest, number: str) -> Events:
        """A writer for an answer that is streamed."""
        ...

    def problem(self, problem: CallProblem) -> bytes:
        """The body of an answer that is none."""
        ...


def model_list(names: Iterable[str]) -> bytes:
    """The list of models, as `GET /v1/models` answers it."""
    listed = [{"id": name, "object": "model", "created": 0, "owned_by": "rollouthub"} for name in names]
    return msgspec.json.encode({"object": "list", "data": listed})
