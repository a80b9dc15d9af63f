"""What is said."""

# pyright: basic

from typing import Any


class Message:
    """One message."""

    def __init__(self, role: str = "assistant", content: Any = None, **more: Any) -> None:
        self.role, self.content = role, content
        self.tool_calls: Any = None
        vars(self).update(more)


class AssistantMessage(Message):
    """Of a model."""


class ResponseMessage(Message):
    """The same, fresh."""


class _Fields:
    def __init__(self, **fields: Any) -> None:
        vars(self).update(fields)


class Response(_Fields):
    """Of a model."""

    message: Any


class ToolCall(_Fields):
    """A call."""

    id: str
    name: str
    arguments: str


class Tool(_Fields):
    """A tool."""

    name: str
    description: str
    parameters: Any
