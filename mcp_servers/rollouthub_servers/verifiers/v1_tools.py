"""Tool servers of a task and its taskset, answered in this process: no servers are started, no ports are opened."""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import json
from typing import Any

from mcp.server.mcpserver import MCPServer
from verifiers.v1.mcp import server as library_server
from verifiers.v1.types import Tool


class OpenTools:
    """The tools of some toolsets, for one rollout."""

    def __init__(self, trace: Any) -> None:
        self.trace = trace
        self.tools: list[Any] = []
        self._servers: dict[str, tuple[Any, str]] = {}

    async def open(self, toolsets: "list[Any]", task: Any = None) -> None:
        """Set up toolsets, those of a task with it, and offer what they offer."""
        for toolset in toolsets:
            self._share_state(toolset)
            await toolset.setup()
            if task is not None:
                await toolset.setup_task(task)
            server = MCPServer(toolset.server_name or type(toolset).__name__)
            toolset.register(server)
            for tool in await server.list_tools():
                name = f"{toolset.server_name}_{tool.name}" if toolset.server_name else tool.name
                self._servers[name] = (server, tool.name)
                schema = tool.input_schema
                self.tools.append(Tool(name=name, description=tool.description or "", parameters=schema))

    def _share_state(self, toolset: Any) -> None:
        async def pull() -> Any:
            return toolset._state_adapter.validate_json(self.trace.state.model_dump_json())

        async def push(before: bytes) -> None:
            current = library_server._call_state.get()
            self.trace.state = type(self.trace.state).model_validate_json(current.model_dump_json())

        toolset._pull_state, toolset._push_state = pull, push

    async def call(self, name: str, arguments: str) -> str:
        """What a tool answers, or how it fails."""
        if name not in self._servers:
            return f"Error: there is no tool {name!r}"
        server, own = self._servers[name]
        try:
            result = await server.call_tool(own, json.loads(arguments))
        except Exception as error:
            return str(error)
        content = getattr(result, "content", result)
        blocks = content[0] if isinstance(content, tuple) else content
        return "\n".join(getattr(block, "text", f"[{getattr(block, 'type', 'data')}]") for block in blocks)
