"""Messages and models."""

# pyright: basic

from typing import Any

from pydantic import BaseModel

ACTIVE: "list[Any]" = []
"""The model that is evaluated, last."""


class ContentImage(BaseModel):
    """A picture."""

    type: str = "image"
    image: str


class Message(BaseModel):
    """What is said."""

    role: str
    content: "str | list[ContentImage]" = ""
    tool_calls: Any = None
    tool_call_id: "str | None" = None
    error: Any = None
    source: "str | None" = None

    @property
    def text(self) -> str:
        """Its words."""
        return self.content if isinstance(self.content, str) else ""


class ChatMessageUser(Message):
    """What is asked."""

    role: str = "user"


class ChatMessageAssistant(Message):
    """What the model says."""

    role: str = "assistant"


class ChatMessageTool(Message):
    """What a tool gives."""

    role: str = "tool"


class GenerateConfig(BaseModel):
    """Of a call."""

    max_retries: int = 1


class ModelOutput:
    """Of a call."""

    def __init__(self, message: Any) -> None:
        self.message = message

    @classmethod
    def from_message(cls, message: Any, stop: str) -> "ModelOutput":
        """One answer."""
        return cls(message)


class ModelAPI:
    """Answers."""

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name


class Model:
    """Of an API."""

    def __init__(self, api: Any) -> None:
        self.api = api

    async def generate(self, messages: Any, tools: Any = ()) -> Any:
        """Ask it."""
        return await self.api.generate(list(messages), list(tools), None, None)


class Answering:
    """The solver that asks once."""

    async def __call__(self, state: Any, model: Any) -> Any:
        """Ask once."""
        state.say((await model.generate(state.messages)).message)
        return state


APIS: "dict[str, Any]" = {}


def modelapi(name: str) -> Any:
    """Register an API."""

    def registered(function: Any) -> Any:
        APIS[name] = function()
        return function

    return registered


def get_model(name: "str | None" = None, **_: Any) -> Any:
    """A new model of a name, or the one that is evaluated."""
    return ACTIVE[-1] if name is None else Model(APIS[name.partition("/")[0]](name))
