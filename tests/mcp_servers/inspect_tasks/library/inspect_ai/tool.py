"""Tools."""

# pyright: basic

from typing import Any

from pydantic import BaseModel


class ToolCall(BaseModel):
    """A call."""

    id: str
    function: str
    arguments: "dict[str, Any]"
    parse_error: "str | None" = None


class ToolParams(BaseModel):
    """What a tool takes."""

    type: str = "object"
    properties: "dict[str, Any]"


class ToolInfo(BaseModel):
    """A tool."""

    name: str
    description: str = "It."
    parameters: ToolParams = ToolParams(properties={"x": {"type": "integer"}})
