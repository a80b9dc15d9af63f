"""One seat of a hosted episode, as an agent sees it."""

import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from mcp_types import CallToolResult, Tool

from rollouthub.messages import Message


class SeatedEpisode(Protocol):
    """The methods of an episode that its seats call."""

    async def call_tool(self, seat: str, name: str, arguments: Mapping[str, Any]) -> CallToolResult: ...
    async def reply(self, seat: str, messages: Sequence[Message]) -> Sequence[Message] | None: ...


class HostedSeat:
    """One seat of an episode, as an agent sees it."""

    __slots__ = ("_episode", "messages", "name", "task_tools", "token", "tools")

    def __init__(
        self,
        episode: SeatedEpisode,
        name: str,
        messages: Sequence[Message],
        tools: tuple[Tool, ...],
        task_tools: frozenset[str] = frozenset(),
    ) -> None:
        self.name, self.tools, self.task_tools = name, tools, task_tools
        self.token = secrets.token_urlsafe(24)
        self.messages: tuple[Message, ...] = tuple(messages)
        self._episode = episode

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
        """Call one of the seat's tools; failures of the tool or the environment are error results, never exceptions."""
        return await self._episode.call_tool(self.name, name, arguments)

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The environment's next user messages, or None when the conversation is over."""
        return await self._episode.reply(self.name, messages)
