"""What a container of a task has around it: its side-cars, and a proxy where it may reach some hosts alone."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rollouthub.errors import NotOffered
from rollouthub.sandbox import Sandbox, SandboxFileError
from rollouthub_servers.terminal.allow_list import AllowList, offer
from rollouthub_servers.terminal.config import TerminalConfig
from rollouthub_servers.terminal.harbor.compose import Compose
from rollouthub_servers.terminal.health import NotBegun
from rollouthub_servers.terminal.network_policy import Access
from rollouthub_servers.terminal.side_cars import Opener, side_cars


@dataclass(frozen=True)
class Surroundings:
    """The side-cars of a container, and the hosts that it may reach."""

    compose: Compose
    access: Access


@asynccontextmanager
async def surrounded(
    sandbox: Sandbox, around: Surroundings, config: TerminalConfig, open_sandbox: Opener
) -> AsyncGenerator[Mapping[str, Sandbox]]:
    """Put up what a container has around it; yields its side-cars by name.

    Raises:
        NotBegun: a side-car does not start or is not healthy, or the proxy cannot be offered.
        SandboxError: a sandbox broke.
    """
    if around.access.hosts is not None:
        try:
            await offer(sandbox, AllowList(around.access.hosts, config.private_hosts))
        except (SandboxFileError, NotOffered) as error:
            raise NotBegun(f"the proxy for allowed_hosts cannot be offered: {error}") from error
    async with side_cars(around.compose, sandbox, around.access.network, config, open_sandbox) as beside:
        yield beside
