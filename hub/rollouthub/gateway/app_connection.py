"""`hub connect`: an episode for an app that starts MCP servers over stdio, opened and scored in this process."""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
from anyio.abc import TaskGroup

from rollouthub.engine.run_request import RunRequest
from rollouthub.engine.seat_config import SeatConfig
from rollouthub.errors import ConfigError, EpisodeError
from rollouthub.gateway.connect_memory import Memory
from rollouthub.gateway.sessions.external_agent import AbsentAgent
from rollouthub.gateway.sessions.open_service import external_agents_plan, open_service
from rollouthub.gateway.sessions.service import HubService
from rollouthub.gateway.sessions.service_rules import ServiceRules
from rollouthub.gateway.sessions.session import AgentSession
from rollouthub.gateway.sessions.sessions_wire import EpisodeRequest
from rollouthub.hosting.server.stdio_bridge import Bridge, carry, open_bridge
from rollouthub.hosting.server.stdio_pipe import LineTooLong, write_line
from rollouthub.models.credentials import Credentials

AGENT = "desktop"
"""The agent's name in records of such episodes."""
RULES = ServiceRules(ttl_seconds=30 * 86400.0, turn_seconds=None, most_open=1)
"""The service's rules for one app: a long time to live, because an app may stay open for days."""


@dataclass(frozen=True)
class ConnectOrder:
    """The settings of one connection: the episode to open, and the app's stdin and stdout."""

    request: RunRequest
    """The environment and its settings, limits and roles."""
    task: EpisodeRequest
    version: str | None
    """The environment's required version; None accepts any."""
    directory: Path
    """The run's directory; it must not exist yet."""
    credentials: Credentials
    stdin: int
    stdout: int


class AppConnection:
    """The connection between one app and its episode."""

    def __init__(self, order: ConnectOrder, say: Callable[[str], None]) -> None:
        self._order, self._say = order, say
        self.is_unscored = False
        """Whether the episode was played, and has no score."""

    async def serve(
        self, up: Callable[[AgentSession], None], gone: Callable[[], Awaitable[None]], leave: Callable[[], None]
    ) -> None:
        """Open the episode, pass the app's messages on, and record the episode.

        Raises:
            HubError: the episode cannot be opened.
        """
        order = self._order
        plan = replace(external_agents_plan(order.request), agent=AbsentAgent(AGENT), agent_name=AGENT)
        is_kept = False
        try:
            async with open_service(plan, order.directory, order.credentials, rules=RULES, give_up=leave) as service:
                _check_version(service, order.version)
                _check_seats(service, order.request.seats)
                try:
                    session = await service.open(order.task)
                except EpisodeError:
                    is_kept = True  # what broke is on record
                    raise
                up(session)
                is_kept = True
                await self._carry(session, gone)
                is_kept = await self._end(session)
        finally:
            if not is_kept:
                shutil.rmtree(order.directory, ignore_errors=True)

    async def _carry(self, session: AgentSession, gone: Callable[[], Awaitable[None]]) -> None:
        """Pass messages on until the app closes its stdin, or the process is told to stop."""
        order, memory = self._order, Memory()

        writing = anyio.Lock()

        async def write(line: bytes) -> None:
            memory.said(line)
            async with writing:
                await write_line(order.stdout, line)

        async def leave(scope: anyio.CancelScope) -> None:
            await gone()
            scope.cancel()

        async with open_bridge(session.address.agent_url, write) as bridge, anyio.create_task_group() as tasks:
            tasks.start_soon(leave, tasks.cancel_scope)
            tasks.start_soon(self._report, session)
            await carry(partial(_take, session, bridge, memory, write), order.stdin)
            tasks.cancel_scope.cancel()

    async def _report(self, session: AgentSession) -> None:
        """Log for the app that the episode is over, without its score, because models may read logs."""
        rollout = await session.over()
        self._say(f"the episode is over ({rollout.stop.value}); hub show {self._order.directory} {rollout.rollout_id}")

    async def _end(self, session: AgentSession) -> bool:
        """Score the episode if it was played; returns whether the run's directory is worth keeping."""
        is_played = session.attempt is not None and bool(session.attempt.recorder.turns)
        rollout = await (session.verify() if is_played else session.close())
        self.is_unscored = is_played and rollout.score is None
        return is_played or bool(rollout.faults)


async def _take(
    session: AgentSession,
    bridge: Bridge,
    memory: Memory,
    write: Callable[[bytes], Awaitable[None]],
    line: bytes | LineTooLong,
    tasks: TaskGroup,
) -> None:
    """Process one line from the app; after the episode's end, a remembered answer is repeated if there is one."""
    if isinstance(line, bytes):
        again = None if session.state == "open" else memory.answer(line)
        if again is not None:
            await write(again)
            return
        memory.heard(line)
    await bridge.take(line, tasks)


def _check_seats(service: HubService, played: Mapping[str, SeatConfig]) -> None:
    card = service.environment(None).card
    left = [seat for seat in card.seats if seat not in played]
    if len(left) > 1:
        raise ConfigError(
            f"{card.name} has the seats {', '.join(left)}, and an app plays one; give the others players, for example "
            f"--seat {left[-1]}=MODEL, or serve them all with `hub serve`"
        )


def _check_version(service: HubService, version: str | None) -> None:
    info = service.environment(None).card
    if version is not None and version != info.version:
        raise ConfigError(
            f"{info.name} {version} was asked for, but version {info.version} is installed; "
            f"install the other one, or ask for {info.name}@{info.version}"
        )
