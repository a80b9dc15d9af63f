"""`SimulatedUser`: the protocol of simulated users, for an environment's `reply`."""

from collections.abc import Sequence
from typing import Protocol

from pydantic import JsonValue

from rollouthub.messages import Message, Part, Text


class SimulatedUser(Protocol):
    """The user of one episode; remembers the conversation."""

    @property
    def is_done(self) -> bool:
        """Whether the user has left."""
        ...

    async def reply(self, messages: Sequence[Message]) -> Sequence[Message] | None:
        """The user's answer to the agent's new messages; None when the user leaves.

        Raises:
            ModelError: the model that plays the user failed.
        """
        ...

    def snapshot(self) -> JsonValue:
        """The user's state, as JSON."""
        ...

    def restore(self, state: JsonValue) -> None:
        """Continue from a snapshot."""
        ...


def words_of(messages: Sequence[Message]) -> str:
    """The text of the agent's messages, without thinking and tool calls."""
    return "\n\n".join(message.text for message in messages if message.role == "assistant" and message.text)


def parts_of(messages: Sequence[Message]) -> tuple[Part, ...]:
    """The agent's messages with their pictures, sounds and files, without thinking and tool calls."""
    contents = (message.content for message in messages if message.role == "assistant" and message.content)
    return tuple(
        part for content in contents for part in ((Text(text=content),) if isinstance(content, str) else content)
    )


def said_aloud(text: str) -> str:
    """What a model that plays a user says: without the thoughts some servers leave before it."""
    text = text.strip()
    if text.startswith("<think>"):
        text = text.rpartition("</think>")[2].strip()
    return text
