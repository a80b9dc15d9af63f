"""Solvers."""

# pyright: basic

from typing import Any

from inspect_ai.model import ChatMessageAssistant, ChatMessageUser


def solver(function: Any) -> Any:
    """Mark a function that gives a solver."""
    return function


class TaskState:
    """The conversation."""

    def __init__(self, sample: Any) -> None:
        self.messages: list[Any] = [ChatMessageUser(content=sample.input)]
        self.output: Any = ChatMessageAssistant()

    def say(self, message: Any) -> None:
        """The model said it."""
        self.messages.append(message)
        self.output = message
