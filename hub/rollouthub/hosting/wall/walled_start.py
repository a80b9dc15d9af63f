"""How one server process is started: as a plain process, or behind a wall."""

import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from rollouthub.hosting.launch import RoleEndpoint, ServeOrder, ServerReady
from rollouthub.hosting.server_program import ServerProgram
from rollouthub.hosting.wall.inside import VARIABLE
from rollouthub.hosting.wall.socket_folder import socket_folder
from rollouthub.hosting.wall.view import view_of
from rollouthub.hosting.wall.wall import Enclosed, WallChoice, choice_for, open_wall
from rollouthub.http.named_sockets import named_socket
from rollouthub.plugins.installed import Installation

CONTROL, AGENTS = "control.sock", "agents.sock"


@dataclass(frozen=True)
class ServerStart:
    """How to start one server process, and where to reach it."""

    command: tuple[str, ...]
    variables: Mapping[str, str]
    order: ServeOrder
    control_host: str | None = None
    """The host name of its control plane; None for the address that the server says itself."""
    process: Callable[[int], int | None] = lambda started: started
    """The pid of a process that the server and its children are below, given that of the command; None if it is not
    known.
    """

    def control_url(self, ready: ServerReady) -> str:
        """Where its control plane is. A server behind a wall has no say in it."""
        return ready.control_url if self.control_host is None else f"http://{self.control_host}"


async def program_of(
    installation: Installation,
    settings: Mapping[str, JsonValue],
    roles: Mapping[str, RoleEndpoint],
    choice: WallChoice,
) -> ServerProgram:
    """The program that serves an installed environment, behind a wall unless it needs none.

    Raises:
        ConfigError: no wall works here, or a setting shows it too much.
    """
    program, choice = ServerProgram.of(installation), choice_for(installation, choice)
    if choice == "none":
        return program
    sockets = [Path(each.socket) for each in roles.values() if each.socket is not None]
    view = view_of(installation, settings, sockets)
    return program.walled(await open_wall(choice, view), view)


@asynccontextmanager
async def behind_wall(program: ServerProgram, folder: Path) -> AsyncGenerator[tuple[Enclosed, dict[str, str]]]:
    """Put a program behind its wall, with sockets in `folder`; yields its command and variables.

    Raises:
        ConfigError: its wall cannot be built.
    """
    assert program.wall is not None
    assert program.view is not None
    variables = program.view.variables(os.environ, program.declared(os.environ))
    variables[VARIABLE] = " ".join((program.wall.kind, *program.view.openings))
    async with program.wall.enclosed(program.command, program.view, folder, variables) as enclosed:
        yield enclosed, variables


@asynccontextmanager
async def server_start(program: ServerProgram, order: ServeOrder) -> AsyncGenerator[ServerStart]:
    """Prepare one start of a server; after the context, nothing that was behind its wall lives.

    Raises:
        ConfigError: its wall cannot be built.
    """
    if program.wall is None or program.view is None:
        yield ServerStart(program.command, program.environment(os.environ), order)
        return
    view = program.view
    with (
        socket_folder() as folder,
        named_socket(folder / CONTROL) as control,
        named_socket(folder / AGENTS) as agents,
    ):
        walled = {
            "control_socket": str(folder / CONTROL),
            "agent_socket": str(folder / AGENTS),
            "agent_url": order.agent_url or f"http://{agents}",
            "traces": order.traces if "network" in view.openings else None,
        }
        async with behind_wall(program, folder) as (enclosed, variables):
            yield ServerStart(enclosed.command, variables, order.model_copy(update=walled), control, enclosed.process)
