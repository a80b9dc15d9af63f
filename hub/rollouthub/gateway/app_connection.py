"""`hub connect`: an episode for an app that starts MCP servers, opened and scored in this process."""

import logging
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from rollouthub.engine.run_request import RunRequest
from rollouthub.errors import ConfigError, EpisodeError
from rollouthub.gateway.connect_memory import Memory
from rollouthub.gateway.sessions.external_agent import Absent
from rollouthub.gateway.sessions.open_service import open_service, visitors_plan
from rollouthub.gateway.sessions.service import HubService
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.hosting.server.stdio_bridge import Bridge, carry, open_bridge
from rollouthub.hosting.server.stdio_pipe import LineTooLong, write_line
from rollouthub.models.credentials import Credentials

logger = logging.getLogger(__name__)

AGENT = "desktop"
"""As records name who played."""
RULES = ServiceRules(ttl_seconds=30 * 86400.0, most_open=1)
"""An app may stay open over the weekend."""


@dataclass(frozen=True)
class ConnectOrder:
    """What to open, and for whom."""

    request: RunRequest
    """The environment and its settings, limits and roles."""
    task: EpisodeRequest
    version: str | None
    """Of the environment; None takes any."""
    directory: Path
    """The run's; not there yet."""
    credentials: Credentials
    stdin: int
    stdout: int


class AppConnection:
    """One app and its episode."""

    def __init__(self, order: ConnectOrder, say: Callable[[str], None]) -> None:
        self._order, self._say = order, say
        self.is_unscored = False
        """Whether somebody played, and there is no score."""

    async def serve(
        self, up: Callable[[AgentSession], None], gone: Callable[[], Awaitable[None]], leave: Callable[[], None]
    ) -> None:
        """Open the episode, carry the app's messages, and record what was played.

        Raises:
            HubError: it cannot be opened.
        """
        order = self._order
        plan = replace(visitors_plan(order.request), agent=Absent(AGENT), agent_name=AGENT)
        is_kept = False
        try:
            async with open_service(plan, order.directory, order.credentials, rules=RULES, give_up=leave) as service:
                _check_version(service, order.version)
                try:
                    visit = await service.open(order.task)
                except EpisodeError:
                    is_kept = True  # what broke is on record
                    raise
                up(visit)
                is_kept = True
                await self._carry(visit, gone)
                is_kept = await self._end(visit)
        finally:
            if not is_kept:
                shutil.rmtree(order.directory, ignore_errors=True)

    async def _carry(self, visit: AgentSession, gone: Callable[[], Awaitable[None]]) -> None:
        """Until the app has hung up, or we are told to leave."""
        order, memory = self._order, Memory()

        writing = anyio.Lock()

        async def write(line: bytes) -> None:
            memory.said(line)
            async with writing:
                await write_line(order.stdout, line)

        async def leave(scope: anyio.CancelScope) -> None:
            await gone()
            scope.cancel()

        async with open_bridge(visit.address.agent_url, write) as bridge, anyio.create_task_group() as tasks:
            tasks.start_soon(leave, tasks.cancel_scope)
            tasks.start_soon(self._tell, visit)
            await carry(partial(_take, visit, bridge, memory, write), order.stdin)
            tasks.cancel_scope.cancel()

    async def _tell(self, visit: AgentSession) -> None:
        """Say for the app's log that the episode is over; of its score nothing, as models read logs, too."""
        rollout = await visit.over()
        self._say(f"the episode is over ({rollout.stop.value}); hub show {self._order.directory} {rollout.rollout_id}")

    async def _end(self, visit: AgentSession) -> bool:
        """Score what was played; whether there was anything to keep."""
        is_played = visit.attempt is not None and bool(visit.attempt.recorder.turns)
        rollout = await (visit.verify() if is_played else visit.close())
        self.is_unscored = is_played and rollout.score is None
        return is_played or bool(rollout.faults)


async def _take(
    visit: AgentSession,
    bridge: Bridge,
    memory: Memory,
    write: Callable[[bytes], Awaitable[None]],
    line: bytes | LineTooLong,
    tasks: TaskGroup,
) -> None:
    """Pass on one line of the app's; after the episode's end, what is known is answered here."""
    if isinstance(line, bytes):
        again = None if visit.state == "open" else memory.answer(line)
        if again is not None:
            await write(again)
            return
        memory.heard(line)
    await bridge.take(line, tasks)


def _check_version(service: HubService, version: str | None) -> None:
    info = service.environment(None).card
    if version is not None and version != info.version:
        raise ConfigError(
            f"{info.name} {version} was asked for, but version {info.version} is installed; "
            f"install the other one, or ask for {info.name}@{info.version}"
        )
