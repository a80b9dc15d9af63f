"""MCP servers, which here are functions."""

# pyright: basic

from types import SimpleNamespace
from typing import Any


class ConnectError(Exception):
    """As of a client whose server is gone."""


ConnectError.__module__ = "httpx"


class Result:
    """Of a call."""

    def __init__(self, text: str, is_error: bool) -> None:
        self.text, self.isError = text, is_error

    def model_dump(self, mode: str) -> "dict[str, Any]":
        """As JSON."""
        return {"content": [{"type": "text", "text": self.text}]}


class MCPClient:
    """Of one server."""

    def __init__(self, tools: Any) -> None:
        self.tools = tools

    @classmethod
    async def connect(cls, capability: Any) -> "MCPClient":
        """To the functions that stand in a capability's address."""
        return cls(capability.url)

    async def list_tools(self) -> "list[Any]":
        """Its functions."""
        return [SimpleNamespace(name=name, description="It.", inputSchema={"type": "object"}) for name in self.tools]

    async def call_tool(self, name: str, arguments: Any) -> Result:
        """Call one."""
        try:
            return Result(str(self.tools[name](**arguments)), False)
        except ValueError as error:
            return Result(str(error), True)
        except SystemExit as error:
            raise ConnectError("all connection attempts failed") from error
