"""Folders with an `env.toml` around the foreign server beside this file, and episodes of them."""

import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import tomli_w
from mcp_types import CallToolResult, TextContent

from rollouthub import Deadlines
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.hosting.open_host import configured, open_in_process
from rollouthub.plugins.environments import find_environment
from rollouthub.protocols import EnvironmentHost

SERVER = Path(__file__).with_name("foreign_server.py")
CANARY = "canary-5d21"
VERIFY = """
import json, pathlib, sys
asked = json.load(sys.stdin)
note = pathlib.Path(asked["workdir"], "note.txt")
right = note.is_file() and note.read_text() == asked["task"]["answer"]
print(json.dumps({"reward": float(right), "passed": right}))
"""
TASK = {
    "id": "one",
    "prompt": "Write the word down.",
    "answer": CANARY,
    "secret": {"hint": CANARY},
    "metadata": {"topic": "birds"},
    "reference": [{"name": "notes_write", "arguments": {"path": "note.txt", "text": CANARY}}, "Done."],
}


def make(
    folder: Path,
    *arguments: str,
    server: dict[str, Any] | None = None,
    verify: str = VERIFY,
    tasks: list[dict[str, Any]] | None = None,
    verifier: dict[str, Any] | None = None,
    **top: Any,
) -> Path:
    """Write an environment's folder; the path of its `env.toml`."""
    folder.mkdir(exist_ok=True)
    (folder / "tasks.jsonl").write_text("".join(json.dumps(task) + "\n" for task in tasks or [TASK]))
    (folder / "verify.py").write_text(verify)
    given = server or {}
    section = (
        given if given.keys() & {"url", "image"} else {"command": [sys.executable, str(SERVER), *arguments], **given}
    )
    manifest = {
        "name": "me/notes",
        "tasks": {"test": "tasks.jsonl"},
        "server": section,
        "verifier": verifier or {"command": ["{python}", "verify.py"]},
        **top,
    }
    (folder / "env.toml").write_text(tomli_w.dumps(manifest))
    return folder / "env.toml"


@asynccontextmanager
async def hosted(file: Path) -> AsyncGenerator[EnvironmentHost]:
    """The host of an environment's folder."""
    found = find_environment(str(file))
    async with open_in_process(found.name, found.environment, configured(found, {})) as host:
        yield host


@asynccontextmanager
async def opened(
    host: EnvironmentHost, task_id: str = "one", seed: int = 0, **deadlines: float
) -> AsyncGenerator[HostedEpisode]:
    """An episode of one task."""
    card = await host.find_task("test", task_id, 0)
    async with host.open(card, seed=seed, deadlines=Deadlines(**deadlines)) as episode:
        assert isinstance(episode, HostedEpisode)
        yield episode


@asynccontextmanager
async def playing(file: Path, seed: int = 0) -> AsyncGenerator[HostedEpisode]:
    """An episode of the first task."""
    async with hosted(file) as host, opened(host, seed=seed) as episode:
        yield episode


async def call(episode: HostedEpisode, name: str, **arguments: Any) -> CallToolResult:
    """Call a tool as the agent."""
    return await episode.seats["agent"].call_tool(name, arguments)


def text(result: CallToolResult) -> str:
    """What a result says."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def is_alive(pid: int) -> bool:
    """Whether a process runs; a dead one nobody has collected yet does not."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (OSError, IndexError):
        return False
