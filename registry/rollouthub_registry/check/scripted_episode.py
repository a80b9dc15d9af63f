"""Plays prepared messages in an episode and returns the submission that reaches the verifier."""

import json
from collections.abc import Sequence
from typing import Any, cast

from mcp_types import CallToolResult, TextContent

from rollouthub import Message, Submission, ToolRequest
from rollouthub.messages import assistant
from rollouthub.protocols import AgentPlane, Episode

SUBMIT = "submit"
_LONGEST_TALK = 20
"""Replies of the environment's user that are answered with the same words before the talk is ended."""


def words_of(result: CallToolResult) -> str:
    """The text of a tool result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def call(plane: AgentPlane, request: ToolRequest) -> CallToolResult | None:
    """Run a request as a model's; None where its arguments are no JSON object."""
    try:
        arguments: Any = json.loads(request.arguments)
    except ValueError:
        return None
    if not isinstance(arguments, dict):
        return None
    return await plane.call_tool(request.name, cast(dict[str, Any], arguments))


async def play(episode: Episode, script: Sequence[Message], *, submit: str | None = None) -> Submission:
    """Play a script from every seat in turn; what is handed in is the first seat's."""
    conversations = [await _play_seat(plane, script) for plane in episode.seats.values()]
    if submit is not None and not episode.is_sealed:
        await next(iter(episode.seats.values())).call_tool(SUBMIT, {"answer": submit})
    stop = "submitted" if episode.is_sealed else "finished"
    return Submission(answer=episode.answer, transcript=_until_last_word(conversations[0]), stop=stop)


async def _play_seat(plane: AgentPlane, script: Sequence[Message]) -> list[Message]:
    conversation = list(plane.messages)
    for said in script:
        conversation.append(said)
        for request in said.tool_requests:
            result = await call(plane, request)
            words = "the arguments are no JSON object" if result is None else words_of(result)
            conversation.append(Message(role="tool", content=words, tool_call_id=request.id))
        if not said.tool_requests:
            conversation += await plane.reply((said,)) or ()
    return conversation


def _until_last_word(conversation: Sequence[Message]) -> tuple[Message, ...]:
    """As a run records it: up to the last response."""
    last = max((place for place, message in enumerate(conversation) if message.role == "assistant"), default=-1)
    return tuple(conversation[: last + 1])


async def insist(episode: Episode, words: str) -> Submission:
    """Say the same to whatever is asked, until nobody asks any more; hand it in where that can be done."""
    plane = next(iter(episode.seats.values()))
    conversation = [*plane.messages, assistant(words)]
    if any(tool.name == SUBMIT for tool in plane.tools):
        await plane.call_tool(SUBMIT, {"answer": words})
    else:
        for _ in range(_LONGEST_TALK):
            more = await plane.reply((assistant(words),))
            if more is None:
                break
            conversation += [*more, assistant(words)]
    stop = "submitted" if episode.is_sealed else "finished"
    return Submission(answer=episode.answer, transcript=tuple(conversation), stop=stop)
