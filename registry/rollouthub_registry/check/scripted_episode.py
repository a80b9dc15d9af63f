"""Plays prepared messages in an episode and returns the submission that reaches the verifier."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import anyio
from mcp_types import CallToolResult, TextContent

from rollouthub import Message, Submission, ToolRequest
from rollouthub.messages import assistant
from rollouthub.protocols import AgentPlane, Episode

Script = Sequence[Message] | Mapping[str, Sequence[Message]]
"""The messages of every seat, or by seat the messages of a reference solution or of one made from it."""

SUBMIT = "submit"
_LONGEST_TALK = 20
"""Most replies of the simulated user that are answered before `insist` stops."""


def words_of(result: CallToolResult) -> str:
    """The text of a tool result."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def call(plane: AgentPlane, request: ToolRequest) -> CallToolResult | None:
    """Make a model's tool call; None if its arguments are no JSON object."""
    try:
        arguments: Any = json.loads(request.arguments)
    except ValueError:
        return None
    if not isinstance(arguments, dict):
        return None
    return await plane.call_tool(request.name, cast(dict[str, Any], arguments))


async def play(episode: Episode, script: Script, *, submit: str | None = None, takes_turns: bool = False) -> Submission:
    """Play a script in every seat, one after the other, or at once where seats take turns; returns the first seat's
    submission.

    Before a reference solution is played, the episode is asked for it, as the oracle does: an environment may then set
    up what its solution needs, such as variables of its commands.
    """
    conversations: dict[str, list[Message]] = {}
    if isinstance(script, Mapping):
        for name in episode.seats:
            await episode.reference(name)

    async def take(name: str) -> None:
        own = script.get(name, ()) if isinstance(script, Mapping) else script
        conversations[name] = await _play_seat(episode.seats[name], own, takes_turns=takes_turns)
        await episode.leave(name)

    names = list(episode.seats)
    if takes_turns:
        async with anyio.create_task_group() as players:
            for name in names:
                players.start_soon(take, name)
    else:
        for name in names:
            await take(name)
    if submit is not None and not episode.is_sealed:
        await episode.seats[names[0]].call_tool(SUBMIT, {"answer": submit})
    stop = "submitted" if episode.is_sealed else "finished"
    return Submission(answer=episode.answer, transcript=_until_last_word(conversations[names[0]]), stop=stop)


async def _play_seat(plane: AgentPlane, script: Sequence[Message], *, takes_turns: bool) -> list[Message]:
    conversation = list(plane.messages)
    if takes_turns:
        heard = await plane.reply(())
        if heard is None:
            return conversation
        conversation += heard
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
    """The conversation up to its last response, as a run records it."""
    last = max((place for place, message in enumerate(conversation) if message.role == "assistant"), default=-1)
    return tuple(conversation[: last + 1])


async def insist(episode: Episode, words: str) -> Submission:
    """Give the same answer to every message until no more come, or submit it if there is a `submit` tool."""
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
