"""What a person says to an agent while it plays: where it goes in the agent's conversation, then and ever after."""

from collections.abc import Sequence
from dataclasses import dataclass

from rollouthub.messages import Message, user


@dataclass(frozen=True)
class _Heard:
    """What a model had been told when it answered."""

    messages: tuple[Message, ...]
    response: Message
    place: int
    """Where the response stood, without the messages."""


class Interjections:
    """What was said to one seat. Its agent owns the conversation and does not know: it goes in at every asking."""

    def __init__(self) -> None:
        self._heard: list[_Heard] = []
        self.waiting: tuple[Message, ...] = ()
        """Said, and not answered yet."""
        self._unsent: list[Message] = []

    def add(self, text: str) -> None:
        """Say something; it goes before the next answer."""
        message = user(text)
        self.waiting = (*self.waiting, message)
        self._unsent.append(message)

    def sent(self) -> list[Message]:
        """A model is asked with what is waiting; what of it is new."""
        unsent, self._unsent = self._unsent, []
        return unsent

    def within(self, messages: Sequence[Message]) -> list[Message]:
        """A conversation of the agent with what was heard before, each where it was said.

        What an agent leaves out of its conversation, such as an answer it sums up, takes with it what led to it.
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
        """A model has answered after having been told these; the answer stands at a place without them."""
        self._heard.append(_Heard(tuple(messages), response, place))
        self.waiting = tuple(
            message for message in self.waiting if not any(message is answered for answered in messages)
        )
