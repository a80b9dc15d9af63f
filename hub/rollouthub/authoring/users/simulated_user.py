"""`SimulatedUser`: what an environment asks for its `reply`, whoever plays the user."""

from collections.abc import Sequence
from typing import Protocol

from pydantic import JsonValue

from rollouthub.messages import Message


class SimulatedUser(Protocol):
    """A user of one episode; it remembers what was said."""

    @property
    def is_done(self) -> bool:
        """Whether the user has left."""
        ...

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """Answer what the agent has said since; None when the user leaves.

        Raises:
            ModelError: the model that plays the user failed.
        """
        ...

    def snapshot(self) -> JsonValue:
        """What the user remembers, as JSON."""
        ...

    def restore(self, state: JsonValue) -> None:
        """Remember a snapshot instead."""
        ...


def words_of(messages: Sequence[Message]) -> str:
    """What an agent said aloud: its thoughts and tool calls are not for the user."""
    return "\n\n".join(message.text for message in messages if message.role == "assistant" and message.text)
