"""Messages of a person to an agent while it plays, and their places in the agent's conversation."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.messages import Message, user


@dataclass(frozen=True)
class _Heard:
    """The interventions that a model had read before one of its responses."""

    messages: tuple[Message, ...]
    response: Message
    place: int
    """Index of the response in the agent's conversation without interventions."""


class Interventions:
    """The messages of a person to one seat. The agent's own conversation lacks them, so they are inserted at every
    model call.
    """

    def __init__(self) -> None:
        self._heard: list[_Heard] = []
        self.waiting: tuple[Message, ...] = ()
        """Messages that no model response has followed yet."""
        self._unsent: list[Message] = []

    def add(self, text: str) -> None:
        """Add a message; it is shown to the model before its next response."""
        message = user(text)
        self.waiting = (*self.waiting, message)
        self._unsent.append(message)

    def sent(self) -> list[Message]:
        """The waiting messages that are sent to a model for the first time; called when the model is asked."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def within(self, messages: Sequence[Message]) -> list[Message]:
        """The agent's conversation with the earlier interventions inserted, each before the response that followed it.

        If the agent drops a response from its conversation, for example by summarising, the interventions before that
        response are dropped, too.
        """
        said = list(messages)
        for heard in self._heard:
            place = heard.place
            if place >= len(said) or said[place] != heard.response:
                place = next((at for at, message in enumerate(said) if message is heard.response), -1)
            if place >= 0:
                said[place:place] = heard.messages
        return said

    def answered(self, messages: Sequence[Message], response: Message, place: int) -> None:
        """Note that `response` followed these messages; `place` is its index in the conversation without them."""
        self._heard.append(_Heard(tuple(messages), response, place))
        self.waiting = tuple(
            message for message in self.waiting if not any(message is answered for answered in messages)
        )
