"""Records an attempt's turns and tool calls while it is played; `Attempt` builds the rollout from them at the end."""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import anyio
from mcp_types import Tool

from rollouthub.errors import AgentError
from rollouthub.generation import ModelReply, Sampling
from rollouthub.messages import Message, Part, media_of
from rollouthub.rollout import Intervention, ToolCall, Turn

_NO_REPLY = ModelReply(message=Message(role="assistant"))
"""Stands for the model's reply in the record of a turn that no model made."""


@dataclass(slots=True)
class OpenTurn:
    """A turn to which tool calls may still be added."""

    index: int
    parent: int | None
    agent: str
    added: tuple[Message, ...]
    whole: "list[Message] | OpenTurn"
    """The conversation up to and including the response; or, for a turn made by `Recorder.follow`, the turn before
    it.
    """
    response: Message
    reply: ModelReply | None
    """The model's reply; None if the response comes from no model."""
    sampling: dict[str, object]
    started: float
    seconds: float
    tools: tuple[str, ...] | None = None
    """Names of the tools that the model was shown, see `Recorder.shown`."""
    is_broken_off: bool = False
    """Whether the response is incomplete or was never read, because an external agent disconnected."""
    tool_calls: list[ToolCall] = field(default_factory=list[ToolCall])
    results: dict[str, str | tuple[Part, ...]] = field(default_factory=dict[str, "str | tuple[Part, ...]"])
    """Request id → the result of the tool call, as message content."""

    @property
    def conversation(self) -> list[Message]:
        """The conversation up to and including the response."""
        turn, later = self, list[Message]()
        while isinstance(turn.whole, OpenTurn):
            later[:0] = [*turn.added, turn.response]
            turn = turn.whole
        return [*turn.whole, *later] if later else turn.whole

    def answers(self) -> list[Message]:
        """The results of the turn's tool calls so far, as messages."""
        found = self.results
        return [
            Message(role="tool", content=found[request.id], tool_call_id=request.id)
            for request in self.response.tool_requests
            if request.id in found
        ]

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
            output_text_ends=reply.output_text_ends,
            policy_version=reply.policy_version,
            policy_versions=reply.policy_versions,
            token_source="none" if reply.output_token_ids is None else "engine",
        )


class Recorder:
    """Records one attempt, over all its seats."""

    def __init__(self, *, wants_text_ends: bool = False) -> None:
        self.wants_text_ends = wants_text_ends
        """Whether models are asked where tokens end in the text; rewards of spans of characters need it."""
        self.turns: list[OpenTurn] = []
        self.media: dict[str, bytes] = {}
        self.other_tools: dict[str, Tool] = {}
        """Tools that models were shown but the environment does not have, or has in another form."""
        self.lost: set[str] = set()
        """What the record lacks: kinds of calls that were cut off, artifacts that were not saved."""
        self.interventions: list[Intervention] = []
        """A person's messages that were sent to a model."""
        self.model_seconds = 0.0
        self.tool_seconds = 0.0
        self.output_tokens = 0
        self.cost = 0.0
        self._with_items: dict[tuple[str, Message], list[Message]] = {}
        """Answers that came with the backend's own items, by their seat and by what they are without these."""
        self._zero = time.perf_counter()

    def now(self) -> float:
        """Seconds since the attempt started."""
        return time.perf_counter() - self._zero

    @cached_property
    def one_by_one(self) -> anyio.Lock:
        """Serialises model calls under a token or cost limit: each call's usage must be known before the next."""
        return anyio.Lock()

    @property
    def turn_count(self) -> int:
        """Number of turns so far."""
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
        """Add a turn: a response to a conversation. Its parent is the turn whose conversation this one extends.

        Raises:
            AgentError: the agent's conversation holds something that is not a `Message`.
        """
        parent, shared = self._parent(seat, messages)
        for message in (*messages[shared:], response):
            if not isinstance(message, Message):  # pyright: ignore[reportUnnecessaryIsInstance]  # agents are anyone's
                raise AgentError(f"the agent's conversation holds {type(message).__name__}, not only messages")
            if not isinstance(message.content, str):
                self.keep_media((message,))
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
        if response.items is not None:
            self._with_items.setdefault((seat, response.without_items), []).append(response)
        if reply is not None:
            self.output_tokens += reply.usage.output_tokens
            self.cost += reply.cost or 0.0
        return self.turns[-1]

    def with_items(self, seat: str, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages of an agent outside, whose API does not carry the items of a backend's answers, with these
        items: those of the seat's own answers, and of answers that are alike each its own.
        """
        if not self._with_items:
            return messages
        known = {key: iter(answers) for key, answers in self._with_items.items()}
        return [next(known.get((seat, message), iter(())), message) for message in messages]

    def keep_media(self, messages: Iterable[Message]) -> None:
        """Store the bytes of the media in messages, if the messages have them.

        Raises:
            TaskError: a picture's file cannot be read any more.
        """
        for part in media_of(messages):
            if part.digest not in self.media and (content := part.read()) is not None:
                self.media[part.digest] = content

    def shown(self, tools: Sequence[Tool], offered: Sequence[Tool]) -> tuple[str, ...]:
        """The names under which turns record the tools a model is shown; a tool unlike the seat's own of that name
        gets another name.
        """
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

    def follow(self, turn: OpenTurn, response: Message, heard: Sequence[Message] = ()) -> OpenTurn:
        """Add a turn that no model made, after `turn`, its tool results and the messages in `heard`."""
        now = self.now()
        self.turns.append(
            OpenTurn(
                index=len(self.turns),
                parent=turn.index,
                agent=turn.agent,
                added=(*turn.answers(), *heard),
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
        """The seat's latest turn whose whole conversation is the beginning of `messages`, and the length of that
        conversation.
        """
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
        """The seat's latest turn with this tool request, else the seat's latest turn."""
        latest: OpenTurn | None = None
        for turn in reversed(self.turns):
            if turn.agent == seat:
                latest = latest or turn
                if any(request.id == request_id for request in turn.response.tool_requests):
                    return turn
        return latest

    def latest_turn(self, seat: str) -> OpenTurn | None:
        """The seat's last turn."""
        for turn in reversed(self.turns):
            if turn.agent == seat:
                return turn
        return None

    def transcript(self, seat: str) -> tuple[Message, ...]:
        """The seat's conversation up to its last complete response."""
        turns = reversed(self.turns)
        latest = next((turn for turn in turns if turn.agent == seat and not turn.is_broken_off), None)
        return () if latest is None else tuple(latest.conversation)


def _looks_like(one: Tool, other: Tool) -> bool:
    """Whether two tools look the same to a model: name, description and input schema are equal."""
    return (one.name, one.description, one.input_schema) == (other.name, other.description, other.input_schema)


def sampling_fields(sampling: Sampling) -> dict[str, object]:
    """The sampling settings that were set, for the record."""
    if not sampling.model_fields_set:
        return {}  # nothing was, as in most runs: it need not be dumped once a rollout
    return sampling.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
