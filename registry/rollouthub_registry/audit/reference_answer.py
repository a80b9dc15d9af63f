"""The final answer in a reference solution, and scripts in which it is replaced or calls are left out."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from rollouthub import Message, ToolRequest
from rollouthub_registry.check.scripted_episode import SUBMIT

SeatScript = Mapping[str, tuple[Message, ...]]
"""The messages of each seat."""
OF_THE_HUB = frozenset({SUBMIT, "get_task", "reply"})
"""Names of the tools that the hub adds to those of the environment."""


@dataclass(frozen=True)
class Answer:
    """Where a reference solution gives its answer, and the answer."""

    text: str
    seat: str
    message: int
    """Index of the message."""
    request: int | None
    """Index of the tool request that submits it; None if it is the message's own text."""


@dataclass(frozen=True)
class SolutionStep:
    """A tool call of a reference solution, other than those that end it."""

    seat: str
    message: int
    request: int
    tool: str
    arguments: Mapping[str, Any]


def answer_of(script: SeatScript) -> Answer | None:
    """The last answer of the first seat that gives one: what it submits, or else its last words."""
    for seat, messages in script.items():
        for place in range(len(messages) - 1, -1, -1):
            for number, request in enumerate(messages[place].tool_requests):
                if request.name == SUBMIT:
                    given = arguments_of(request).get("answer")
                    if isinstance(given, str):
                        return Answer(given, seat, place, number)
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if message.role == "assistant" and message.text.strip():
                return Answer(message.text, seat, place, None) if not message.tool_requests else None
    return None


def with_answer(script: SeatScript, answer: Answer, text: str) -> SeatScript:
    """The script with another answer in the same place."""
    message = script[answer.seat][answer.message]
    if answer.request is None:
        changed = message.model_copy(update={"content": text})
    else:
        request = message.tool_requests[answer.request]
        given = json.dumps({**arguments_of(request), "answer": text})
        changed = _with_request(message, answer.request, request.model_copy(update={"arguments": given}))
    return _with_message(script, answer.seat, answer.message, changed)


def steps_of(script: SeatScript) -> Iterator[SolutionStep]:
    """The tool calls of the solution in order, without those of the hub's own tools."""
    for seat, messages in script.items():
        for place, message in enumerate(messages):
            for number, request in enumerate(message.tool_requests):
                if request.name not in OF_THE_HUB:
                    yield SolutionStep(seat, place, number, request.name, arguments_of(request))


def without_steps(script: SeatScript, left_out: Sequence[SolutionStep]) -> SeatScript:
    """The script without these calls; messages that are empty then go, too."""
    gone = {(step.seat, step.message, step.request) for step in left_out}
    changed: dict[str, tuple[Message, ...]] = {}
    for seat, messages in script.items():
        kept: list[Message] = []
        for place, message in enumerate(messages):
            requests = tuple(
                request for number, request in enumerate(message.tool_requests) if (seat, place, number) not in gone
            )
            if len(requests) < len(message.tool_requests):
                message = message.model_copy(update={"tool_requests": requests})
                if not requests and not message.text.strip():
                    continue
            kept.append(message)
        changed[seat] = tuple(kept)
    return changed


def unsubmitted(script: SeatScript) -> SeatScript:
    """The script without the answer that would end the episode."""
    return {seat: tuple(_without_submit(messages)) for seat, messages in script.items()}


def _without_submit(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        requests = tuple(each for each in message.tool_requests if each.name != SUBMIT)
        if requests:
            yield message.model_copy(update={"tool_requests": requests})


def with_arguments(script: SeatScript, step: SolutionStep, arguments: Mapping[str, Any]) -> SeatScript:
    """The script with other arguments in one call."""
    return with_call(script, step, step.tool, arguments)


def with_call(script: SeatScript, step: SolutionStep, tool: str, arguments: Mapping[str, Any]) -> SeatScript:
    """The script with another call in the place of one."""
    message = script[step.seat][step.message]
    update = {"name": tool, "arguments": json.dumps(arguments)}
    request = message.tool_requests[step.request].model_copy(update=update)
    return _with_message(script, step.seat, step.message, _with_request(message, step.request, request))


def arguments_of(request: ToolRequest) -> dict[str, Any]:
    """The arguments of a call; empty if they are no JSON object."""
    try:
        found: Any = json.loads(request.arguments)
    except ValueError:
        return {}
    return cast(dict[str, Any], found) if isinstance(found, dict) else {}


def _with_request(message: Message, number: int, request: ToolRequest) -> Message:
    requests = list(message.tool_requests)
    requests[number] = request
    return message.model_copy(update={"tool_requests": tuple(requests)})


def _with_message(script: SeatScript, seat: str, place: int, message: Message) -> SeatScript:
    messages = list(script[seat])
    messages[place] = message
    return {**script, seat: tuple(messages)}
