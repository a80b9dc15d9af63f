"""An MCP client of the SDK's 1.x line, driven by JSON lines: run with that SDK's own Python, never imported."""

import asyncio
import json
import sys

from mcp import ClientSession  # type: ignore
from mcp.client.streamable_http import streamablehttp_client  # type: ignore


async def main(url: str) -> None:
    loop = asyncio.get_running_loop()
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        opened = await session.initialize()
        say({"protocol": opened.protocolVersion, "instructions": opened.instructions})
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            asked = json.loads(line)
            try:
                if asked["do"] == "list":
                    listed = await session.list_tools()
                    say({"tools": [tool.model_dump(mode="json", exclude_none=True) for tool in listed.tools]})
                else:
                    result = await session.call_tool(asked["name"], asked["arguments"])
                    say({"result": result.model_dump(mode="json", exclude_none=True)})
            except Exception as error:
                say({"error": f"{type(error).__name__}: {error}"})


def say(value: object) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


asyncio.run(main(sys.argv[1]))
