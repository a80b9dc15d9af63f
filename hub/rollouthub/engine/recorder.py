"""Writes down an episode while it is played, and turns the notes into a record at the end."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import anyio
from mcp_types import Tool

from rollouthub.errors import AgentError
from rollouthub.messages import Message, Part
from rollouthub.protocols import ModelReply, Sampling
from rollouthub.rollout import Told, ToolCall, Turn

_NO_REPLY = ModelReply(message=Message(role="assistant"))
"""Stands for the model's share of a turn that no model made."""


@dataclass(slots=True)
class OpenTurn:
    """A turn whose tool calls may still come in."""

    index: int
    parent: int | None
    agent: str
    added: tuple[Message, ...]
    whole: "list[Message] | OpenTurn"
    """Everything up to and including the response; or the turn it follows, whose conversation this one goes on with."""
    response: Message
    reply: ModelReply | None
    sampling: dict[str, object]
    started: float
    seconds: float
    tools: tuple[str, ...] | None = None
    """Those the model was shown, see `Recorder.shown`."""
    is_broken_off: bool = False
    """Whether who asked left, or was left, before the end of the response: no conversation goes on with it."""
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    results: dict[str, str | tuple[Part, ...]] = field(default_factory=dict[str, "str | tuple[Part, ...]"])
    """What the calls gave, by the id of their request."""

    @property
    def is_said(self) -> bool:
        """Whether no model made it."""
        return self.reply is None

    @property
    def conversation(self) -> list[Message]:
        """Everything up to and including the response."""
        turn, later = self, list[Message]()
        while isinstance(turn.whole, OpenTurn):
            later[:0] = [*turn.added, turn.response]
            turn = turn.whole
        return [*turn.whole, *later] if later else turn.whole

    def answers(self) -> list[Message]:
        """The results there are so far, as messages."""
        requests = self.response.tool_requests
        found = [(request.id, self.results[request.id]) for request in requests if request.id in self.results]
        return [Message(role="tool", content=said, tool_call_id=name) for name, said in found]

    def close(self) -> Turn:
        """The record of this turn."""
        reply = self.reply or _NO_REPLY
        return Turn(
            index=self.index,
            parent_turn=self.parent,
            agent=self.agent,
            messages=self.added,
            response=self.response,
            tools=self.tools,
            tool_calls=tuple(self.tool_calls),
            finish_reason=reply.finish_reason,
            usage=reply.usage,
            cost=reply.cost,
            model=reply.model,
            sampling=self.sampling,  # pyright: ignore[reportArgumentType]  # JSON by construction, see Sampling
            started=self.started,
            seconds=self.seconds,
            retries=reply.retries,
            prompt_token_ids=reply.prompt_token_ids,
            output_token_ids=reply.output_token_ids,
            output_logprobs=reply.output_logprobs,
            policy_version=reply.policy_version,
            policy_versions=reply.policy_versions,
            token_source="none" if reply.output_token_ids is None else "engine",
        )


class Recorder:
    """The notes of one attempt, over all seats."""

    def __init__(self) -> None:
        self.turns: list[OpenTurn] = []
        self.media: dict[str, bytes] = {}
        self.other_tools: dict[str, Tool] = {}
        """What models were shown that the environment does not have, or not so."""
        self.lost: set[str] = set()
        """Kinds of calls that were in flight when the episode ended, and left no record."""
        self.told: list[Told] = []
        """What a person said, as far as a model was asked with it."""
        self.model_seconds = 0.0
        self.tool_seconds = 0.0
        self.output_tokens = 0
        self.cost = 0.0
        self._zero = time.perf_counter()

    def now(self) -> float:
        """Seconds since the attempt started."""
        return time.perf_counter() - self._zero

    @cached_property
    def one_by_one(self) -> anyio.Lock:
        """Held by a call whose tokens or cost must be known before the next."""
        return anyio.Lock()

    @property
    def turn_count(self) -> int:
        """Responses so far."""
        return len(self.turns)

    def add_turn(
        self,
        seat: str,
        messages: Sequence[Message],
        response: Message,
        reply: ModelReply | None,
        sampling: dict[str, object],
        started: float,
        tools: tuple[str, ...] | None = None,
    ) -> OpenTurn:
        """Note a response to a conversation, as a child of the turn whose conversation it extends.

        Raises:
            AgentError: what the agent gave are no messages.
        """
        parent, shared = self._parent(seat, messages)
        for message in (*messages[shared:], response):
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  # agents are anyone's
                raise AgentError(f"the agent's conversation holds {type(message).__name__}, not only messages")
        self.turns.append(
            OpenTurn(
                index=len(self.turns),
                parent=parent,
                agent=seat,
                added=tuple(messages[shared:]),
                whole=[*messages, response],
                response=response,
                reply=reply,
                sampling=sampling,
                started=started,
                seconds=self.now() - started,
                tools=tools,
            )
        )
        if reply is not None:
            self.output_tokens += reply.usage.output_tokens
            self.cost += reply.cost or 0.0
        return self.turns[-1]

    def shown(self, tools: Sequence[Tool], offered: Sequence[Tool]) -> tuple[str, ...]:
        """What turns call the tools that a model is shown, of those that its seat offers and others."""
        own = {tool.name: tool for tool in offered}
        return tuple(self._name_of(tool, own) for tool in tools)

    def _name_of(self, tool: Tool, own: Mapping[str, Tool]) -> str:
        name, number = tool.name, 1
        while (known := own.get(name) or self.other_tools.get(name)) is not None:
            if known is tool or _looks_like(known, tool):
                return name
            number += 1
            name = f"{tool.name}#{number}"
        self.other_tools[name] = tool
        return name

    def follow(self, turn: OpenTurn, response: Message) -> OpenTurn:
        """Note what was said next, by no model, after the results of a turn's calls."""
        now = self.now()
        self.turns.append(
            OpenTurn(
                index=len(self.turns),
                parent=turn.index,
                agent=turn.agent,
                added=tuple(turn.answers()),
                whole=turn,
                response=response,
                reply=None,
                sampling={},
                started=now,
                seconds=0.0,
            )
        )
        return self.turns[-1]

    def _parent(self, seat: str, messages: Sequence[Message]) -> tuple[int | None, int]:
        """The latest turn of the seat whose whole conversation begins `messages`, and how long that one is."""
        for turn in reversed(self.turns):
            whole = turn.whole
            if turn.agent != seat or isinstance(whole, OpenTurn):
                continue
            known = len(whole)
            # Equal lists of the same objects compare by identity, so a long shared history costs next to nothing.
            if known <= len(messages) and list(messages[:known]) == whole:
                return turn.index, known
        return None, 0

    def turn_of(self, seat: str, request_id: str) -> OpenTurn | None:
        """The turn that asked for a tool call, or the seat's latest."""
        latest: OpenTurn | None = None
        for turn in reversed(self.turns):
            if turn.agent == seat:
                latest = latest or turn
                if any(request.id == request_id for request in turn.response.tool_requests):
                    return turn
        return latest

    def latest_turn(self, seat: str) -> OpenTurn | None:
        """The seat's last turn."""
        return next((turn for turn in reversed(self.turns) if turn.agent == seat), None)

    def transcript(self, seat: str) -> tuple[Message, ...]:
        """The seat's conversation up to its last response that came to its end."""
        turns = reversed(self.turns)
        latest = next((turn for turn in turns if turn.agent == seat and not turn.is_broken_off), None)
        return () if latest is None else tuple(latest.conversation)


def _looks_like(one: Tool, other: Tool) -> bool:
    """Whether models are shown the same of both."""
    return (one.name, one.description, one.input_schema) == (other.name, other.description, other.input_schema)


def sampling_fields(sampling: Sampling) -> dict[str, object]:
    """What was asked of the sampler, for the record."""
    if not sampling.model_fields_set:
        return {}  # nothing was, as in most runs: it need not be dumped once a rollout
    return sampling.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
