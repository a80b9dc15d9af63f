"""Customer service hosted in this process: its cases, opened episodes, and a clerk's messages."""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from mcp_types import CallToolResult, TextContent
from pydantic import JsonValue

from rollouthub import BadRow, Deadlines, Score, Submission, ToolRequest
from rollouthub.hosting import InProcessHost
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.messages import Message, assistant
from rollouthub.protocols import TaskCard
from rollouthub_servers.customer_service import CustomerService, CustomerServiceConfig
from rollouthub_servers.customer_service.case import CaseSecret


def desk(**settings: Any) -> InProcessHost:
    return InProcessHost("customer_service", CustomerService, CustomerServiceConfig(**settings))


async def cards(host: InProcessHost, count: int, split: str = "test", seed: int = 0) -> list[TaskCard]:
    found: list[TaskCard] = []
    async for card in host.tasks(split, seed):
        assert not isinstance(card, BadRow)
        found.append(card)
        if len(found) == count:
            break
    return found


def secret_of(card: TaskCard) -> CaseSecret:
    task: Any = card
    return task.task.secret


@asynccontextmanager
async def opened(host: InProcessHost, card: TaskCard, state: JsonValue = None) -> AsyncGenerator[HostedEpisode]:
    async with host.open(card, seed=0, deadlines=Deadlines(), state=state) as episode:
        assert isinstance(episode, HostedEpisode)
        yield episode


def text_of(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


async def act(episode: HostedEpisode, messages: Iterable[Message]) -> list[str | None]:
    """Say and do as a clerk's messages say; what came back."""
    seat = episode.seats["agent"]
    heard: list[str | None] = []
    for message in messages:
        for request in message.tool_requests:
            result = await seat.call_tool(request.name, json.loads(request.arguments))
            heard.append(text_of(result))
        if not message.tool_requests:
            answer = await seat.reply([message])
            heard.append(None if answer is None else "\n".join(each.text for each in answer))
    return heard


async def score_of(host: InProcessHost, card: TaskCard, messages: Iterable[Message]) -> Score:
    async with opened(host, card) as episode:
        await act(episode, messages)
        return await episode.verify(Submission())


def call(name: str, /, **arguments: JsonValue) -> Message:
    return assistant("", ToolRequest(id=name, name=name, arguments=json.dumps(arguments)))


def called(messages: Sequence[Message], name: str) -> dict[str, Any]:
    """The arguments of a call among a clerk's messages."""
    return next(json.loads(each.arguments) for m in messages for each in m.tool_requests if each.name == name)


def changed(messages: Sequence[Message], name: str, **arguments: JsonValue) -> list[Message]:
    """A clerk's messages, with other arguments for one tool."""
    return [
        call(name, **{**json.loads(request.arguments), **arguments})
        if (request := next(iter(message.tool_requests), None)) is not None and request.name == name
        else message
        for message in messages
    ]


def dropped(messages: Sequence[Message], name: str) -> list[Message]:
    """A clerk's messages without one tool's calls."""
    return [message for message in messages if all(request.name != name for request in message.tool_requests)]
