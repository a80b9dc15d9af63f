"""Playing in real containers by hand: an agent's seat, and where the tasks are."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_types import TextContent

from rollouthub import Submission
from rollouthub.hosting.local.hosted_episode import HostedEpisode
from rollouthub.score import Score

TASKS = Path(__file__).parent / "harbor_tasks"
STAND_INS = Path(__file__).parent / "stand_ins"


@dataclass(frozen=True)
class Player:
    """An agent's seat, by hand."""

    episode: HostedEpisode

    async def call(self, tool: str, **arguments: Any) -> str:
        """Call a tool; what it says."""
        result = await self.episode.seats["agent"].call_tool(tool, arguments)
        (content,) = result.content
        assert isinstance(content, TextContent)
        return content.text

    async def bash(self, command: str, **more: Any) -> str:
        """Run a command."""
        return await self.call("bash", command=command, **more)

    async def play_reference(self) -> None:
        """What the oracle does."""
        for message in await self.episode.reference():
            for request in message.tool_requests:
                await self.call(request.name, **json.loads(request.arguments))
            if not message.tool_requests:
                await self.episode.seats["agent"].reply((message,))

    async def end(self) -> Score:
        """Leave, and be graded."""
        score = await self.episode.conclude(Submission())
        assert self.episode.faults == []
        assert score is not None
        return score


Open = Callable[..., AbstractAsyncContextManager[Player]]
"""Opens an episode of the first task of an environment class under a configuration."""


USES_UP_MEMORY = """\
for process in /proc/[0-9]*; do echo 0 > $process/oom_score_adj; done 2>/dev/null
echo 1000 > /proc/1/oom_score_adj
while :; do
  for i in $(seq 24); do perl -e '$x = "a" x (8 << 20); sleep 100' & done
  wait
done
"""
"""A shell script of root that has the kernel end a sandbox of little memory."""
