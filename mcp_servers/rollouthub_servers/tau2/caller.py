"""The simulated user: a model that plays the part a task describes, or a script; both have tools of their own."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from mcp_types import Tool
from pydantic_core import from_json

from rollouthub import Message
from rollouthub.authoring.users.simulated_user import said_aloud
from rollouthub.errors import ModelError
from rollouthub.generation import Model, ModelRequest, Sampling
from rollouthub.messages import assistant, system, user
from rollouthub_servers.tau2.row import GoldAction

MARKS = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
"""Markers of τ²-bench: a user whose message contains one of them has hung up."""
UseTool = Callable[[str, dict[str, Any]], Awaitable[str]]
"""Calls a tool of the user by name with arguments, and returns its answer as text, errors included."""
_MOST_CALLS = 40
"""Maximum number of model calls in one turn of the user; a model that exceeds it fails."""


class Caller(Protocol):
    """The simulated user of one episode."""

    async def answer(self, heard: str) -> str:
        """Return the user's reply to the agent's message; the user may call its tools before.

        Raises:
            ModelError: the model that plays the user failed.
        """
        ...


class ModelCaller:
    """A user played by a model. Keeps the conversation from the user's side: its own messages and calls, and the
    agent's messages.
    """

    def __init__(
        self,
        model: Model,
        prompt: str,
        tools: Sequence[Tool],
        use: UseTool,
        past: Sequence[Message] = (),
        *,
        timeout_seconds: float = 90.0,
    ) -> None:
        self._model, self._tools, self._use, self._timeout = model, tuple(tools), use, timeout_seconds
        self._said: list[Message] = [system(prompt), *past]

    async def answer(self, heard: str) -> str:
        """Call the model and run its tool calls until it replies with text."""
        for mark in MARKS:  # the user's alone: an agent that writes it is not to be parroted into an end
            heard = heard.replace(mark, "")
        self._said.append(user(heard))
        for _ in range(_MOST_CALLS):
            request = ModelRequest(
                tuple(self._said),
                tools=self._tools,
                sampling=Sampling(temperature=0.0),
                timeout_seconds=self._timeout,
            )
            message = (await self._model.generate(request)).message
            if not message.tool_requests:
                text = said_aloud(message.text)
                if not text:
                    raise ModelError(f"the model {self._model.name!r} plays the user, and said nothing")
                self._said.append(assistant(text))
                return text
            self._said.append(message)
            for call in message.tool_requests:
                answer = await self._use(call.name, _arguments(call.arguments))
                self._said.append(Message(role="tool", content=answer, tool_call_id=call.id))
        raise ModelError(f"the model {self._model.name!r} plays the user, and calls tools without end")


class ScriptedCaller:
    """A user without a model: says why it calls, performs one part of the task's solution at each message, then
    hangs up.
    """

    def __init__(self, reason: str, parts: Sequence[Sequence[GoldAction]], use: UseTool) -> None:
        self._reason: str | None = reason
        self._parts, self._use = list(parts), use

    async def answer(self, heard: str) -> str:
        """Say why the user calls; at later messages perform the next part of the solution, or hang up."""
        if self._reason is not None:
            said, self._reason = self._reason, None
            return said
        if not self._parts:
            return MARKS[0]
        for action in self._parts.pop(0):
            await self._use(action.name, dict(action.arguments))
        return "I have done that. What is next?"


def _arguments(text: str) -> dict[str, Any]:
    """Parse a tool call's arguments; empty where they are not a JSON object."""
    try:
        given = from_json(text)
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}  # pyright: ignore[reportUnknownVariableType]  # any JSON object
