"""Makes a record of the hub's of what a foreign format says of one episode; what it does not say stays unsaid."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from mcp_types import CallToolResult, TextContent, Tool
from pydantic import JsonValue

from rollouthub.analysis.foreign_runs.foreign_messages import as_number
from rollouthub.analysis.foreign_runs.run_format import FoundRollout
from rollouthub.engine.trainable import missing_arrays, why_not_trainable
from rollouthub.hosting.local.toolbox import tools_digest
from rollouthub.messages import Message, ToolRequest
from rollouthub.rollout import (
    AgentRef,
    EnvironmentRef,
    Fault,
    Outcome,
    Phase,
    Rollout,
    Stop,
    TaskRef,
    Timings,
    ToolCall,
    Turn,
)
from rollouthub.score import ModelCall, Score
from rollouthub.text import one_line

UNKNOWN = "unknown"
"""Version of an environment or an agent that the source does not give."""
_MOST_NAME = 300
_MOST_MESSAGE = 4000
_BOUNDARIES: dict[Outcome, Literal["agent", "model", "environment", "sandbox", "verifier", "hub"]] = {
    Outcome.AGENT_FAILED: "agent",
    Outcome.MODEL_FAILED: "model",
    Outcome.ENVIRONMENT_FAILED: "environment",
    Outcome.SANDBOX_FAILED: "sandbox",
    Outcome.VERIFIER_FAILED: "verifier",
    Outcome.CANCELLED: "hub",
}


@dataclass(slots=True)
class SaidMessage:
    """One message of a conversation, and what is known of the call that made it."""

    message: Message
    is_sampled: bool = False
    """Whether the agent's model said it in this episode; an assistant message of the prompt is not sampled."""
    turn: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Fields of its `Turn` as far as the source has them."""
    call: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """For a tool's message, fields of its `ToolCall`: `is_error`, `started`, `seconds`."""


@dataclass(slots=True)
class ForeignEpisode:
    """What a format says of one episode."""

    environment: str
    task_id: str
    task: str
    """The task's content, of which its digest is made: its prompt and what else defines it."""
    said: Sequence[SaidMessage] = ()
    split: str = ""
    sample: int = 0
    attempt: int = 0
    version: str = UNKNOWN
    agent: str = UNKNOWN
    agent_version: str = UNKNOWN
    model: str | None = None
    seed: int = 0
    source: str | None = None
    outcome: Outcome = Outcome.SCORED
    """As the source says; scored without a score becomes a verifier fault."""
    stop: Stop = Stop.FINISHED
    reward: Any = None
    score: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of its `Score`."""
    answer: str | None = None
    error: str | None = None
    error_type: str = "Error"
    phase: Phase = "agent"
    role_calls: Sequence[ModelCall] = ()
    timings: Timings = field(default_factory=Timings)
    started_at: float = 0.0
    tools: Sequence[Tool] = ()
    media: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    gaps: Sequence[str] = ()
    position: int = 0
    held: int = 0


def found(episode: ForeignEpisode, tool: str) -> FoundRollout:
    """The record of an episode, read from a file of `tool`.

    Raises:
        ValueError: what the source says makes no record.
    """
    turns = turns_of(episode.said)
    score, problem = _score(episode)
    outcome = episode.outcome
    if outcome is Outcome.SCORED and score is None:
        outcome = Outcome.VERIFIER_FAILED
    if outcome is not Outcome.SCORED:
        score = None
    reason = why_not_trainable(outcome, turns, False)
    environment, task_id = _name(episode.environment), _name(episode.task_id)
    group = _digest("\0".join((environment, episode.split, task_id)))[:16]
    definitions = tuple(episode.tools)
    rollout = Rollout(
        run_id="",
        rollout_id=f"{group}-{episode.sample}",
        group_id=group,
        sample=episode.sample,
        attempt=episode.attempt,
        environment=EnvironmentRef(
            name=environment, version=_name(episode.version), digest=f"read from {_name(tool)}: code unknown"
        ),
        task=TaskRef(
            split=_name(episode.split),
            id=task_id,
            digest=f"sha256:{_digest(episode.task)[:32]}",
            source=None if episode.source is None else _name(episode.source),
        ),
        seed=episode.seed,
        agent=AgentRef(name=_name(episode.agent), version=_name(episode.agent_version)),
        model=None if episode.model is None else _name(episode.model),
        tools_digest=tools_digest(definitions) if definitions else None,
        outcome=outcome,
        stop=Stop.FAILED if outcome is not Outcome.SCORED and episode.stop is Stop.FINISHED else episode.stop,
        score=score,
        answer=episode.answer,
        turns=turns,
        role_calls=tuple(episode.role_calls),
        timings=episode.timings,
        started_at=episode.started_at,
        faults=_faults(episode, outcome, problem),
        trainable=reason is None,
        trainable_reason=reason,
        gaps=tuple(dict.fromkeys((*missing_arrays(turns), *episode.gaps))),
    )
    return FoundRollout(rollout, episode.media, definitions, episode.position, episode.held)


def _score(episode: ForeignEpisode) -> tuple[Score | None, str | None]:
    """The score, or why there is none."""
    if episode.outcome is not Outcome.SCORED:
        return None, None
    reward = as_number(episode.reward)
    if reward is None:
        return (
            None,
            "the file gives it no reward" if episode.reward is None else f"its reward is {episode.reward!r:.80}",
        )
    if not math.isfinite(reward):
        return None, f"its reward is {reward}"
    return Score(reward=reward, **episode.score), None


def _faults(episode: ForeignEpisode, outcome: Outcome, problem: str | None) -> tuple[Fault, ...]:
    message = episode.error or problem
    if message is None and outcome is Outcome.SCORED:
        return ()
    boundary = _BOUNDARIES.get(outcome, "agent")
    return (
        Fault(
            boundary=boundary,
            phase="verify" if boundary == "verifier" else episode.phase,
            type="NoReward" if episode.error is None and problem else _name(episode.error_type),
            message=(message or "the file does not say why")[:_MOST_MESSAGE],
        ),
    )


def turns_of(said: Sequence[SaidMessage]) -> tuple[Turn, ...]:
    """A conversation as turns: one for each sampled message, with the calls that the following results answer."""
    made: list[dict[str, Any]] = []
    waiting: list[Message] = []
    asked: dict[str, tuple[int, ToolRequest]] = {}
    for each in said:
        message = each.message
        if each.is_sampled and message.role == "assistant":
            for request in message.tool_requests:
                asked[request.id] = (len(made), request)
            made.append({"messages": tuple(waiting), "response": message, "tool_calls": [], **each.turn})
            waiting = []
            continue
        waiting.append(message)
        if message.role == "tool" and message.tool_call_id in asked:
            place, request = asked[message.tool_call_id]
            made[place]["tool_calls"].append(_tool_call(request, message, each.call))
    return tuple(
        Turn(
            index=index,
            parent_turn=turn.pop("parent_turn", index - 1 if index else None),
            tool_calls=tuple(turn.pop("tool_calls")),
            **turn,
        )
        for index, turn in enumerate(made)
    )


def _tool_call(request: ToolRequest, message: Message, known: Mapping[str, Any]) -> ToolCall:
    text = message.text
    try:
        arguments: JsonValue = json.loads(request.arguments)
    except (ValueError, RecursionError):
        arguments = request.arguments
    return ToolCall(
        id=request.id,
        name=request.name,
        arguments=arguments,
        result=CallToolResult(
            content=[TextContent(type="text", text=text)], is_error=bool(known.get("is_error", False))
        ),
        started=known.get("started", 0.0),
        seconds=known.get("seconds", 0.0),
        bytes=len(text.encode("utf-8", "surrogatepass")),
    )


def prompt_and_answers(prompt: Sequence[Message], answers: Sequence[Message]) -> list[SaidMessage]:
    """A conversation of which the first part was given, and whose further assistant messages were sampled."""
    return [
        *(SaidMessage(message) for message in prompt),
        *(SaidMessage(message, is_sampled=message.role == "assistant") for message in answers),
    ]


def moment(value: Any) -> float | None:
    """A time as Unix seconds: an ISO text, or a number of seconds, milliseconds, microseconds or nanoseconds."""
    if isinstance(value, str):
        if value.isascii() and value.isdigit():
            return moment(int(value))
        try:
            found = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    number = as_number(value)
    if number is None or not math.isfinite(number) or number <= 0:
        return None
    while number > 1e11:
        number /= 1000
    return number


def between(start: Any, end: Any) -> float:
    """Seconds between two times; 0 where one is unknown."""
    first, last = moment(start), moment(end)
    return max(0.0, last - first) if first is not None and last is not None else 0.0


def _name(text: str) -> str:
    line = one_line(text, _MOST_NAME + 1)
    return line if len(line) <= _MOST_NAME else f"{line[: _MOST_NAME - 20]}…{_digest(text)[:16]}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
