"""HUD's own rewards of given calls and answers: what `tests.foreign.hud` compares the hub with.

    python hud_own.py SOURCE.py '[{"row": …, "calls": [["tool", {…}], …], "answer": …}, …]'

Runs in the virtual environment of an import, and imports nothing of the hub: HUD's own server is asked by its own
protocol (`tasks.start`, `tasks.grade`), and the environment's tools by HUD's own client of MCP. Prints a line of JSON
for each: its prompt, its score, and the CPU seconds that took.
"""

# Its library is installed in the foreign environment alone, and has no types.
# pyright: basic, reportMissingImports=false

import asyncio
import json
import os
import sys
import time
from typing import Any

from hud.capabilities.mcp import MCPClient
from hud.environment import load_environment
from hud.environment.server import bind
from hud.environment.utils import read_frame, send_frame


async def asked(reader: Any, writer: Any, method: str, **params: Any) -> Any:
    """What its server answers to a frame."""
    await send_frame(writer, {"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return (await read_frame(reader))["result"]


async def played(server: Any, tools: "dict[str, Any]", job: "dict[str, Any]") -> "dict[str, Any]":
    """One task."""
    began, row = time.process_time(), job["row"]
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    await asked(reader, writer, "hello")
    prompt = (await asked(reader, writer, "tasks.start", id=row["id"], args=row["args"]))["prompt"]
    for name, given in job["calls"]:
        await tools[name].call_tool(name, given)
    score = (await asked(reader, writer, "tasks.grade", answer=job["answer"]))["score"]
    writer.close()
    return {"prompt": prompt, "score": score, "cpu": time.process_time() - began}


async def main() -> None:
    """Serve and play."""
    jobs = json.loads(sys.argv[2])
    env = load_environment(sys.argv[1], name=jobs[0]["row"]["env"])
    await env.start()
    tools: dict[str, Any] = {}
    for capability in env.capabilities:
        client = await MCPClient.connect(capability)
        tools |= {tool.name: client for tool in await client.list_tools()}
    server = await bind(env, "127.0.0.1", 0)
    lines = [json.dumps(await played(server, tools, job)) for job in jobs]
    sys.stdout.write("\n".join((*lines, "")))
    sys.stdout.flush()
    os._exit(0)  # its servers run on


asyncio.run(main())
