"""Third-party MCP clients (Python SDK, current and 1.x) play an episode to its end."""

import json
import subprocess
from pathlib import Path
from typing import Literal

import anyio
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from rollouthub_registry.check.scripted_episode import SUBMIT
from rollouthub_registry.check.thorough.access_points import OpenEpisode
from rollouthub_registry.check.thorough.attack import Attack, NotTried
from rollouthub_registry.check.thorough.attack_context import AttackContext

_SECONDS = 60.0
_ERAS: tuple[Literal["auto", "legacy"], ...] = ("auto", "legacy")
_MCP1 = """
import asyncio, json, sys
from mcp import ClientSession
from mcp.client.streamable_http import streamablehttp_client

async def main(url, submits):
    async with streamablehttp_client(url) as (read, write, _), ClientSession(read, write) as session:
        opened = await session.initialize()
        tools = [tool.name for tool in (await session.list_tools()).tools]
        task = await session.call_tool("get_task", {})
        unknown = await session.call_tool("no_such_tool", {})
        done = await session.call_tool("submit", {"answer": "x"}) if submits else None
        print(json.dumps({"protocol": opened.protocolVersion, "tools": tools, "task": not task.isError,
                          "unknown": bool(unknown.isError), "submitted": done is None or not done.isError}))

asyncio.run(main(sys.argv[1], sys.argv[2] == "True"))
"""


async def sdk2(context: AttackContext) -> str:
    """The Python SDK's 2.x client plays an episode in both eras at both access points: tools, task, an unknown tool,
    an answer.
    """
    for access_point in context.access_points:
        for era in _ERAS:
            async with context.episode(access_point) as opened:
                context.wire.requests += 1
                try:
                    with anyio.fail_after(_SECONDS):
                        await _play(context, opened, era)
                except (MCPError, TimeoutError, OSError, ExceptionGroup) as error:
                    context.note(f"a client of the SDK's 2.x line ({era}) fails at the {access_point}: {error!r:.300}")
    return "both eras are played to the end at both access points"


async def _play(context: AttackContext, opened: OpenEpisode, era: Literal["auto", "legacy"]) -> None:
    where = f"by a client of the SDK's 2.x line ({era}) at the {opened.access_point}"
    async with Client(opened.place.url, mode=era) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        if tools != [tool.name for tool in opened.place.tools]:
            context.note(f"{tools} are listed {where}")
        if (await client.call_tool("get_task", {})).is_error:
            context.note(f"the task cannot be read {where}")
        if not (await client.call_tool("no_such_tool", {})).is_error:
            context.note(f"an unknown tool answers {where}")
        if opened.submits and (await client.call_tool(SUBMIT, {"answer": "x"})).is_error:
            context.note(f"no answer can be handed in {where}")


async def sdk1(context: AttackContext) -> str:
    """The Python SDK's 1.x client, still common among agents, plays an episode: tools, task, an unknown tool, an
    answer.
    """
    python = context.tools.mcp1_python
    if python is None or not await anyio.Path(python).exists():
        raise NotTried(
            "no Python with the SDK's 1.x line is named: python -m venv mcp1 && mcp1/bin/pip install 'mcp<2', "
            "then --mcp1-python mcp1/bin/python"
        )
    for access_point in context.access_points:
        async with context.episode(access_point) as opened:
            context.wire.requests += 1
            with anyio.move_on_after(_SECONDS) as patience:
                await _play_mcp1(context, opened, python)
            if patience.cancelled_caught:
                context.note(f"a client of the SDK's 1.x line is not done after {_SECONDS:g} s at the {access_point}")
    return "clients of the 1.x line play to the end at both access points"


async def _play_mcp1(context: AttackContext, opened: OpenEpisode, python: Path) -> None:
    done = await anyio.run_process(
        [str(python), "-c", _MCP1, opened.place.url, str(opened.submits)],
        check=False,
        stderr=subprocess.PIPE,
        input=b"",
    )
    where = f"by a client of the SDK's 1.x line at the {opened.access_point}"
    if done.returncode != 0:
        context.note(f"the episode cannot be played {where}: {done.stderr.decode(errors='replace')[-400:]}")
        return
    said = json.loads(done.stdout.splitlines()[-1])
    if said["tools"] != [tool.name for tool in opened.place.tools]:
        context.note(f"{said['tools']} are listed {where}")
    for what in ("task", "unknown", "submitted"):
        if not said[what]:
            context.note(f"{what!r} is not as it must be {where}")


ATTACKS = (
    Attack("sdk-2", "protocol", "clients of the Python SDK's 2.x line play in both eras", sdk2),
    Attack("sdk-1", "protocol", "clients of the Python SDK's 1.x line play", sdk1),
)
